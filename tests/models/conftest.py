"""Models in plain Python only where PORTABLE_TEST_SPACES asks for the checked space.

There the interpreter watches every access, which takes a hundred times as long; `tests/checked` runs all
models so, once each.
"""

from ..conftest import ASKED, SPACES, space_fixture

space = space_fixture(ASKED or [name for name in SPACES if name != "checked"])
