"""Run the README's first steps: its first kernel, and a user's files through each family, by its commands."""

import pytest

from ..docs.test_pages import ROOT
from . import own_data

README = (ROOT / "README.md").read_text()
STEPS = own_data.steps(README)


def test_every_family_has_a_step():
    families = {command[2].rpartition(".")[2] for command in STEPS.values() if command[1] == "-m"}
    assert families == {"hawkes", "tmap", "edm", "mixture"}
    assert "resampling" in own_data.marked(README, "own series")


@pytest.mark.parametrize("name", sorted(STEPS, key=lambda name: "edm" not in name))
def test_a_step_of_the_readme_runs(name, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    assert list(own_data.run(README, tmp_path, only=name)) == [name]
