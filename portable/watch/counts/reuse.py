"""Bytes that caches of many sizes would have fetched and written back, from a sample of a launch's accesses.

The build that marks touched elements also records accesses to lines of memory, for lines selected by a hash
of their address (Waldspurger et al.: Efficient MRC construction with SHARDS, FAST 2015). The number of other
lines touched since a line's last access, its reuse distance (Mattson et al., IBM Systems Journal 9, 1970),
determines the caches that still hold it: those of more lines, under least-recently-used replacement.
"""

import numpy as np

from .recording import EVENTS, HASHED, LIMIT, LINE, RECORDS, SAMPLES, STORES, WORKER

LESS = 4  # each sample is of a fourth of the lines before it
LINES = 1 << 12  # picked by the first, near enough
ENOUGH = 32  # picked lines in a cache, from which on a sample represents it
CAPACITIES = [1 << k for k in range(12, 28)]  # bytes, of each worker's cache


class Trace:
    """The samples that the counting build takes: see `recording.sample`.

    Parameters
    ----------
    n_lines : int
        That the launch's arguments have.
    n_workers : int
        The number of workers of the launch, and of caches.
    """

    def __init__(self, n_lines, n_workers):
        self.n_workers = n_workers
        first = (1 << HASHED) * min(1.0, LINES / max(n_lines, 1))
        self.samples = np.zeros((SAMPLES, RECORDS + EVENTS), np.uint64)
        self.samples[:, LIMIT] = [int(first / LESS**k) for k in range(SAMPLES)]

    def count_traffic(self, touched, lines):
        """Return {("", "beyond BYTES", "load" or "store"): bytes} that all workers' caches, of BYTES
        together, fetch and write back.

        `touched` is the number of lines, `lines` the numbers of those that are read, and of those that are
        written. The dirty lines in a cache at the end count as written back; a line that is only written is
        not fetched.

        A cache is estimated from the smallest sample of which it holds enough lines, and which was never
        full; or, if all of these were full, from the beginning of the next larger one.
        """
        last = next((k for k, s in enumerate(self.samples) if s[0] <= EVENTS), SAMPLES - 1)
        shares, samples, result = self.samples[: last + 1, LIMIT] / (1 << HASHED), {}, {}
        for capacity in CAPACITIES:
            k = max(int((shares * (capacity // LINE) >= ENOUGH).sum()) - 1, 0)
            if k not in samples:
                samples[k] = _Sample(self.samples[k], touched)
            result[capacity] = samples[k].count_fetches(capacity // LINE)
        return {
            ("", f"beyond {self.n_workers * capacity}", way): LINE * (once + round(more))
            for capacity, both in result.items()
            for way, once, more in zip(("load", "store"), lines, both)
        }


class _Sample:
    """One of the samples, its records by worker."""

    def __init__(self, numbers, touched):
        records = numbers[RECORDS:][: min(int(numbers[0]), EVENTS)]
        lines, workers = records & np.uint64((1 << STORES) - 1), records >> np.uint64(WORKER)
        n_lines = len(np.unique(lines))
        full = len(records) < numbers[0]
        self.share = float(numbers[LIMIT]) / (1 << HASHED) if full else max(n_lines, 1) / max(touched, 1)
        # scale for accesses that are not a line's first, which are rarer at the beginning
        repeated = max(int(numbers[0]) - self.share * touched, 0.0) / max(len(records) - n_lines, 1)
        self.weight = (repeated if full else 1.0) / self.share
        self.workers = [_Worker(records[workers == worker], self.share) for worker in np.unique(workers)]

    def count_fetches(self, n_lines):
        """Return the number of times that caches of so many lines fetch a line again, and write one back
        again."""
        return self.weight * sum((worker.count_fetches(n_lines) for worker in self.workers), np.zeros(2))


class _Worker:
    """Accesses of one worker, line by line: True for each that is the first, the number of other lines
    touched since the preceding one, and its kind, read or write.
    """

    def __init__(self, records, share):
        line = records & np.uint64((1 << STORES) - 1)
        order = np.argsort(line, kind="stable")
        self.first = np.r_[True, np.diff(line[order]) != 0]
        before = np.full(len(line), -1)
        before[order[1:]] = np.where(self.first[1:], -1, order[:-1])
        self.distance = (_smaller_before(before) - before - 1)[order] / share
        ways = records[order] >> np.uint64(STORES)
        self.ways = np.stack([ways & np.uint64(1), ways & np.uint64(2)]).astype(bool)
        self.once = self._stays(self.first)

    def count_fetches(self, n_lines):
        return self._stays(self.first | (self.distance >= n_lines)) - self.once

    def _stays(self, begins):
        """Count residencies of lines in a cache, given their beginnings: those with a read, and those with a
        write.
        """
        return np.logical_or.reduceat(self.ways, np.flatnonzero(begins), axis=1).sum(axis=1)


def _smaller_before(values):
    """Return for each value the number of smaller ones before it: counted while sorted by merging."""
    places, found, width = np.arange(len(values)), np.zeros(len(values), np.int64), 1
    span = len(values) + 2
    while width < len(values):
        keys = places // (2 * width) * span + values + 1
        right = places // width % 2 == 1
        left = np.sort(keys[~right])
        found[right] += np.searchsorted(left, keys[right]) - np.searchsorted(left, keys[right] // span * span)
        width *= 2
    return found
