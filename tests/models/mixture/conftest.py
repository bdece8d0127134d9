"""Make the serial space that of fits that name none."""

import pytest

import portable as pk


@pytest.fixture(autouse=True, scope="module")
def serial():
    with pk.use("serial"):
        yield
