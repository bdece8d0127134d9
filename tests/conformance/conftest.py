"""The `space` fixture, with more CPU threads than many machines have cores: their number must change
nothing."""

from ..conftest import ASKED, SPACES, space_fixture

space = space_fixture(ASKED or [*SPACES, "threads:4"])
