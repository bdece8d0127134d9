"""Make threads the space of launches that name none: with a GPU, too, references come from the CPU."""

import pytest

import portable as pk


@pytest.fixture(autouse=True, scope="module")
def threads():
    with pk.use("threads"):
        yield
