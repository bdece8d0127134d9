"""The `space` fixture, with more CPU threads than many machines have cores, in place of as many: their number
must change nothing. Methods, examples and pages run on "threads" itself."""

from ..conftest import ASKED, SPACES, space_fixture

space = space_fixture(ASKED or [{"threads": "threads:4"}.get(name, name) for name in SPACES])
