"""Make the serial space that of calls that name none."""

import pytest

import portable as pk


@pytest.fixture(autouse=True, scope="module")
def serial():
    with pk.use("serial"):
        yield
