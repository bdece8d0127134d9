"""What is shown while chains run."""

from __future__ import annotations

import numpy as np

from ..shared.progress import bar
from . import chain_kernels as ck


class Progress:
    """A rich progress bar with steps a second and acceptance rates, or nothing."""

    def __init__(self, chains, shown):
        self._chains, self._bar = chains, None
        if shown:
            self._bar = bar(True, "{task.fields[rates]}")

    def __enter__(self):
        if self._bar:
            self._bar.start()
            self._task = self._bar.add_task(
                f"{self._chains.n_chains} chains", total=self._chains.n_steps, rates=""
            )
        return self

    def update(self, done):
        """Show that all chains have done so many steps."""
        if not self._bar:
            return
        tallies = self._chains.array("tallies").sum(axis=0)
        rates = tallies[:, ck.ACCEPTED] / np.maximum(tallies[:, ck.TRIED], 1)
        speed = self._bar.tasks[0].speed
        text = "  ".join(f"{name} {rate:.0%}" for name, rate in zip(self._chains.free, rates))
        self._bar.update(self._task, completed=done, rates=f"{speed or 0.0:,.0f} steps/s, accepted: {text}")

    def __exit__(self, *error):
        if self._bar:
            self._bar.stop()
