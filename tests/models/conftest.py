"""Run models in plain Python only if PORTABLE_TEST_SPACES names the checked space.

There the interpreter monitors every access, which takes a hundred times as long; `tests/checked` runs each
model once in this way.
"""

from ..conftest import ASKED, SPACES, space_fixture

space = space_fixture(ASKED or [name for name in SPACES if name != "checked"])
