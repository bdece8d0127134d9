"""What holds while something is compiled."""

import gc

import pytest

from portable import locks


@pytest.mark.parametrize("collects", [True, False])
def test_the_garbage_collector_rests_while_something_is_compiled_and_is_as_before_afterwards(collects):
    was = gc.isenabled()
    (gc.enable if collects else gc.disable)()

    @locks.alone
    def compiled(fails):
        assert not gc.isenabled()
        inner() if fails else None

    @locks.alone
    def inner():
        raise ValueError("refused")

    try:
        compiled(False)
        assert gc.isenabled() == collects
        with pytest.raises(ValueError, match="refused"):
            compiled(True)
        assert gc.isenabled() == collects
    finally:
        (gc.enable if was else gc.disable)()
