"""Define the `space` fixture: "threads" has more CPU threads than many machines have cores, since their
number must not affect results. Methods, examples and pages run on "threads" itself."""

from ..conftest import ASKED, SPACES, space_fixture

space = space_fixture(ASKED or [{"threads": "threads:4"}.get(name, name) for name in SPACES], default=True)
