"""Test the classification of instructions."""

import numpy as np

import portable as pk
from portable.roofline import operation_mix
from portable.roofline.operation_mix import executed_totals, lanes_and_type


def test_lanes_of_types():
    assert lanes_and_type("<8 x double>") == (8, "float64", 8)
    assert lanes_and_type("float") == (1, "float32", 4)
    assert lanes_and_type("{ i64, i1 }") == (1, "{ i64, i1 }", 0)


def test_each_lane_is_an_operation_and_an_fma_is_two():
    found = executed_totals(
        {
            ("a", "fadd", "<8 x double>"): 3,
            ("a", "fma", "<8 x double>"): 2,
            ("b", "fdiv", "float"): 5,
            ("b", "fneg", "float"): 9,
            ("b", "vector.reduce.fadd", "<8 x double>"): 1,
            ("c", "special exp", "<8 x double>"): 4,
            ("c", "sqrt", "double"): 1,
            ("c", "add", "i64"): 7,
            ("c", "load", "<8 x double>"): 2,
            ("c", "masked.store", "<16 x float>"): 1,
            ("c", "atomicrmw add", "i32"): 6,
            ("c", "load", "ptr"): 1,
            ("c", "inside exp fma", "<8 x double>"): 3,
            ("c", "inside exp fcmp", "<8 x double>"): 2,
        }
    )
    assert found == {
        "flops": {"float64": 24 + 32 + 8, "float32": 5},
        "inside_flops": {"float64": 48},
        "special": {"exp float64": 32, "sqrt float64": 1},
        "integer": 7,
        "loaded": 136,
        "stored": 64,
        "atomics": 6,
    }


@pk.kernel
def chains(i, n, trips, x, out):
    a = pk.local(n, x.dtype)
    for k in range(pk.static(n)):
        a[k] = x[i] + k
    for _ in range(trips):
        for k in range(pk.static(n)):
            a[k] = a[k] * 0.999 + 0.001
    total = 0.0
    for k in range(pk.static(n)):
        total += a[k]
    out[i] = total


def test_what_a_loop_writes_to_the_stack():
    """64 packs exceed the registers of any machine: most of them are stored to the stack and reloaded in each
    iteration.
    """
    x, found = np.ones(64), {}
    for n in (4, 64):
        args = pk.RangePolicy(0, 64, space="serial"), chains, pk.static(n), 10, x, np.zeros(64)
        found[n] = operation_mix.spilled(pk.listing(*args))
        assert pk.explain(*args).facts["spills in the assembly"] >= n // 64
    assert found[4][0] == 0 and found[4][1] >= 4
    each, arithmetic = found[64]
    assert arithmetic >= 64 and each >= 16 * arithmetic


def test_a_listing_without_loops_spills_nothing():
    assert operation_mix.spilled("\tret\n") == (0, 0)
    aarch64 = (
        ".LBB0_1:  // =>This Inner Loop Header: Depth=1\n\tstr q0, [sp]  // 16-byte Folded Spill\n"
        "\tfmla v0.2d, v1.2d, v2.2d\n"
    )
    assert operation_mix.spilled(aarch64) == (16, 1)


def test_machine_code_is_emitted_once_for_launches_of_the_same_types():
    """A caller that counts launches repeatedly on changing data reads the code each time; other types have
    other code."""

    @pk.kernel
    def halve(i, x):
        x[i] *= 0.5

    wide, narrow = np.ones(100), np.ones(100, np.float32)
    first, again, other = (
        pk.listing(pk.RangePolicy(0, n, space="serial"), halve, x)
        for n, x in ((100, wide), (50, wide), (100, narrow))
    )
    assert first is again and other != first
