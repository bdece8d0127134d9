"""Test batches, quartiles and alternation, on a clock that the test controls."""

import pytest

from portable.roofline import timing
from portable.roofline.timing import Samples


class Clock:
    """Clock that only calls advance."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(timing.time, "perf_counter", lambda: self.now)

    def taking(self, seconds, log=None, name=None):
        def call():
            self.now += seconds
            if log is not None:
                log.append(name)

        return call


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def test_measure_returns_seconds_per_call(clock):
    samples = timing.measure(clock.taking(0.25), min_time=1.0, repeats=5)
    assert samples.values == (0.25,) * 5
    assert samples.calls >= 4, "a repeat lasts at least min_time"


def test_measure_counts_the_wait_once_a_batch(clock):
    samples = timing.measure(clock.taking(0.5), clock.taking(1.0), min_time=4.0, repeats=3)
    assert samples.median == pytest.approx(0.5 + 1.0 / samples.calls)


def test_measure_stops_at_max_time_but_not_before_three_repeats(clock):
    assert len(timing.measure(clock.taking(10.0), repeats=50, max_time=1.0).values) == timing.MIN_SAMPLES
    assert len(timing.measure(clock.taking(10.0), repeats=50, max_time=100.0).values) == pytest.approx(
        11, abs=1
    )


def test_a_long_call_is_not_made_twice_before_it_is_timed(clock):
    log = []
    timing.alternate({"ours": clock.taking(timing.LONG_SECONDS, log, "ours")}, 2)
    assert len(log) == 3


def test_a_long_call_of_one_round_is_made_once(clock):
    log = []
    fns = {
        name: clock.taking(seconds, log, name)
        for name, seconds in (("ours", 1.0), ("peer", timing.LONG_SECONDS))
    }
    found = timing.alternate(fns, 1)
    assert log == "ours ours peer ours".split()
    assert found["ours"].values == (1.0,) and found["peer"].values == (timing.LONG_SECONDS,)


def test_slow_rounds_are_few_where_nobody_says_how_many(clock):
    for seconds, rounds in ((0.1, timing.ROUNDS), (timing.SLOW_SECONDS, timing.MIN_SAMPLES)):
        found = timing.alternate({"ours": clock.taking(0.01), "peer": clock.taking(seconds)})
        assert len(found["ours"].values) == len(found["peer"].values) == rounds


def test_alternate_runs_the_sides_in_turn(clock):
    log = []
    fns = {name: clock.taking(1.0, log, name) for name in ("ours", "peer")}
    timing.alternate(fns, 4, min_time=0.5)
    assert log[-8:] == ["ours", "peer"] * 4


def test_alternate_keeps_rounds_together_so_that_drift_cancels_in_ratios(clock):
    """On a machine that slows down steadily the sides' medians change, but not their ratio."""
    slower = {"by": 1.0}

    def side(seconds):
        def call():
            clock.now += seconds * slower["by"]
            slower["by"] *= 1.0001

        return call

    times = timing.alternate({"ours": side(1.0), "peer": side(3.0)}, 9, min_time=0.5)
    assert times["peer"].upper > times["peer"].lower
    assert timing.ratio(times["peer"], times["ours"]).median == pytest.approx(3.0, rel=1e-3)


def test_host_only_stops_the_clock_before_the_wait(clock):
    waits = {"ours": clock.taking(100.0)}
    times = timing.alternate({"ours": clock.taking(1.0)}, 2, sync=waits, host_only=True)["ours"]
    assert times.values == (1.0, 1.0)
    assert times.calls == timing.QUEUE


def test_samples_give_median_and_quartiles():
    samples = Samples((5.0, 1.0, 2.0, 3.0, 4.0))
    assert (samples.lower, samples.median, samples.upper) == (2.0, 3.0, 4.0)


def test_ratio_refuses_results_of_different_lengths():
    with pytest.raises(ValueError):
        timing.ratio(Samples((1.0, 2.0)), Samples((1.0,)))


def test_a_pause_lies_before_each_side_and_counts_for_none(clock, monkeypatch):
    pauses = []

    def sleep(seconds):
        pauses.append(seconds)
        clock.now += seconds

    monkeypatch.setattr(timing, "PAUSE", 0.02)
    monkeypatch.setattr(timing.time, "sleep", sleep)
    found = timing.alternate({"ours": clock.taking(1.0), "peer": clock.taking(2.0)}, 3, min_time=0.5)
    assert pauses == [0.02] * 6 and found["ours"].values == pytest.approx((1.0,) * 3)
