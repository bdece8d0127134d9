"""Random team kernels: phases over scratch, reductions and uniform control flow agree with plain Python to a bit.

As in `test_random_kernels.py` every value stays a multiple of 1/8 in [-4, 4], so that sums are exact in any order; a
phase reads other places only of what an earlier phase wrote, so that no answer depends on the number of members.
"""

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import portable as pk

from ..launching import launch_for
from .test_random_kernels import folder, load_text  # noqa: F401  (folder is a fixture)

LENGTH, TEAMS = 19, 5
HEADER = """import math
import portable as pk

@pk.function
def q(t):
    return math.floor(pk.clip(t, -4.0, 4.0) * 8.0) / 8.0

@pk.kernel
def kernel(team, x, k, out):
    old, new = team.scratch(19, x.dtype), team.scratch(19, x.dtype)
    marks = team.scratch((3, 19), pk.int32)
    row = team.league_rank
    u, v = 0.5, x[row, 0]
    for j in team.thread_range(19):
        old[j] = x[row, j]
        marks[j % 3, j] = j
    team.barrier()
"""
ITEMS = ("old[j]", "old[(j + 5) % 19]", "old[k[row, j]]", "x[row, j]", "x[0, k[row, j]]", "u", "v", "1.5", "-0.25", "t")
UNIFORM = ("u", "v", "x[row, 3]", "old[7]", "0.75", "row")
fresh = itertools.count()


def expressions(leaves, conditions):
    """A float expression over some leaves."""
    shapes = ["{0} + {1}", "{0} - {1} * {2}", "max({0}, {1})", "min({0}, {1}) * {2}", "q({0}) - {1}", "-{0}"]
    shapes += ["({0} if {c} else {1})"] if conditions is not None else []
    return st.builds(
        lambda shape, *parts, c="": shape.format(*parts, c=c),
        st.sampled_from(shapes),
        *(st.sampled_from(leaves) for _ in range(3)),
        c=conditions if conditions is not None else st.just(""),
    )


def comparisons(leaves, whole):
    return st.builds(
        lambda shape, one, two, n: shape.format(one, two, n=n),
        st.sampled_from(["{0} < {1}", "{0} >= {1}", "{0} > 0.5 and {n} % 2 == 0", "not {0} < {1} or {n} == 1"]),
        st.sampled_from(leaves),
        st.sampled_from(leaves),
        st.sampled_from(whole),
    )


ITEM_CONDITIONS = comparisons(ITEMS, ("j", "k[row, j]", "row"))
ITEM = expressions(ITEMS, ITEM_CONDITIONS)
TEAM_CONDITIONS = comparisons(UNIFORM, ("row", "3"))


@st.composite
def item_work(draw):
    """What a member does for an item j with its own t: a few lines of control flow."""
    lines = ["t = old[j]", f"t = q({draw(ITEM)})"]
    for _ in range(draw(st.integers(0, 2))):
        kind = draw(st.sampled_from(["if", "while", "for", "skip"]))
        if kind == "skip":
            lines += [f"if {draw(ITEM_CONDITIONS)}:", "    continue"]
        elif kind == "if":
            lines += [
                f"if {draw(ITEM_CONDITIONS)}:",
                f"    t = q({draw(ITEM)})",
                "else:",
                f"    t = q(t + {draw(st.sampled_from(ITEMS))})",
            ]
        elif kind == "while":
            lines += ["n = 0", f"while n < 3 and ({draw(ITEM_CONDITIONS)}):", f"    t = q({draw(ITEM)})", "    n += 1"]
        else:
            lines += [
                f"for r in range(k[row, j] % 4):",
                f"    if {draw(ITEM_CONDITIONS)}:",
                "        break",
                f"    t = q(t - {draw(ITEM)})",
            ]
    return lines


def indent(lines):
    return ["    " + line for line in lines]


@st.composite
def phases(draw, depth):
    kind = draw(st.sampled_from(["map", "map", "sum", "extreme", "place", "count"] + (["if", "loop"] if depth else [])))
    if kind == "map":
        work = ["new[j] = old[j]", *draw(item_work()), "new[j] = t"]
        return [
            "for j in team.thread_range(19):",
            *indent(work),
            "team.barrier()",
            "for j in team.thread_range(19):",
            "    old[j] = new[j]",
            "team.barrier()",
        ]
    if kind == "sum":
        return [
            "p = 0.0",
            "for j in team.thread_range(row, 19):",
            *indent([*draw(item_work()), "p += t"]),
            "u = q(team.reduce(p))",
        ]
    if kind == "extreme":
        return [
            "p = -4.0",
            "for j in team.thread_range(19):",
            *indent([*draw(item_work()), "p = max(p, t)"]),
            "v = team.reduce(p, pk.Max)",
        ]
    if kind == "place":
        return [
            "p, w = 4.0, 99",
            "for j in team.thread_range(19):",
            *indent([*draw(item_work()), "if t < p:", "    p, w = t, j"]),
            "p, w = team.reduce((p, w), pk.MinLoc)",
            "u = q(p + w % 3)",
        ]
    if kind == "count":
        return [
            "c = 0",
            "for j in team.thread_range(19):",
            *indent([*draw(item_work()), "if t > 0.0:", "    c += marks[j % 3, j] % 5"]),
            "c = team.reduce(c)",
            "v = q((c % 16) / 8.0)",
        ]
    inner = list(itertools.chain.from_iterable(draw(st.lists(phases(depth - 1), min_size=1, max_size=2))))
    if kind == "if":
        return [
            f"if {draw(TEAM_CONDITIONS)}:",
            *indent(inner),
            "else:",
            f"    u = q({draw(expressions(UNIFORM, None))})",
        ]
    name = f"r{next(fresh)}"
    return [f"for {name} in range({draw(st.sampled_from(['2', 'row % 3', '1, 3']))}):", *indent(inner)]


@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)
@given(
    parts=st.lists(phases(2), min_size=1, max_size=4),
    dtype=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0, 2**32 - 1),
)
def test_random_team_kernels(space, folder, parts, dtype, seed):  # noqa: F811
    if space == "checked":
        pytest.skip("the checked space is the reference here")
    body = [
        *itertools.chain.from_iterable(parts),
        "for j in team.thread_range(19):",
        "    out[row, j] = q(old[j] + u - v)",
    ]
    kernel, text = load_text(folder, HEADER + "".join(f"    {line}\n" for line in body))
    rng = np.random.default_rng(seed)
    shape = (TEAMS, LENGTH)
    args = (
        (rng.integers(-16, 17, shape) / 8).astype(dtype),
        rng.integers(0, LENGTH, shape).astype(np.int32),
        np.zeros(shape, dtype),
    )
    wanted = launch_for("checked", pk.TeamPolicy(TEAMS), kernel, *args)[2]
    np.testing.assert_array_equal(
        launch_for("checked", pk.TeamPolicy(TEAMS, 7), kernel, *args)[2], wanted, err_msg=text
    )
    np.testing.assert_array_equal(launch_for(space, pk.TeamPolicy(TEAMS), kernel, *args)[2], wanted, err_msg=text)
    np.testing.assert_array_equal(
        launch_for(space, pk.TeamPolicy(TEAMS), pk.kernel(kernel.fn, packed=False), *args)[2], wanted, err_msg=text
    )
