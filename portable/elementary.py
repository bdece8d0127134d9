"""exp, log and their family as kernel text: one sequence of fused multiply-adds, so the same bits on every machine.

Every function here is compiled like a user's kernel, for scalars, lane packs and CUDA. The text is branch-free (selects only), the
float32 versions hold no float64 operation, and every product that meets a sum is an explicit `fma`, because the compiler is free
to contract `a * b + c` and the machines would then disagree. Coefficients are Remez fits of ours, rounded one after another with
the rest refitted; tuples run from the highest degree down.

The idea is Cody and Waite's (Software Manual for the Elementary Functions, 1980): reduce exactly, approximate on a short
interval, rebuild. Rounding to an integer is the addition of 1.5 * 2^52 (or 2^23), which leaves the integer in the low bits.
"""

from .words import bits, float32, float64, fma, from_bits32, from_bits64, where

INF = float("inf")
NAN = float("nan")
LOG2E = 1.4426950408889634

# ln 2 in two parts. HI is the nearest number of the type: fma(n, -HI, x) is exact, for it is a multiple of half an ulp of ln 2
# below 2^-1. SHORT has so many zeros at its end that n * SHORT is exact for every exponent n.
LN2_HI_64, LN2_LO_64 = 0.6931471805599453, 2.3190468138462996e-17
LN2_HI_32, LN2_LO_32 = 0.6931471824645996, -1.9046542121259336e-09
LN2_SHORT_64, LN2_REST_64 = 0.6931471805601177, -1.7239444525614835e-13
LN2_SHORT_32, LN2_REST_32 = 0.69317626953125, -2.9088971132296138e-05

# 2 exp(r) on |r| <= ln(2)/2: twice, so that the largest results need no scale above 2^1023. Relative error 4e-18 and 3e-9.
EXP_64 = (5.006282283131723e-08, 5.525758782868542e-07, 5.511491754499793e-06, 4.9602994399363216e-05, 0.0003968253938851742,
          0.00277777778796218, 0.01666666666675395, 0.08333333333308509, 0.3333333333333335, 1.000000000000002, 2.0, 2.0)
EXP_32 = (0.0027642936911433935, 0.016737325116991997, 0.08333650976419449, 0.3333304226398468, 0.9999998807907104, 2.0, 2.0)

# (log(1 + f) - f) / f^2 on sqrt(1/2) <= 1 + f < sqrt(2), weighted for relative error: 9e-18 and 7e-9.
LOG_64 = (0.026149446357893402, -0.05981519703438402, 0.06503475759203504, -0.05677847579254183, 0.056683980804598036,
          -0.06196670381104358, 0.0668458490884144, -0.0714943988248722, 0.07691530231880148, -0.08332913551008843,
          0.09090923909263163, -0.10000015204365433, 0.11111111148187663, -0.12499999691527759, 0.14285714280079534,
          -0.16666666669824148, 0.20000000000066767, -0.2499999999998799, 0.3333333333333314, -0.5)
LOG_32 = (-0.07643269002437592, 0.12773160636425018, -0.13161635398864746, 0.1420038938522339, -0.1662316620349884,
          0.200012668967247, -0.250008225440979, 0.3333333134651184, -0.5)


def horner(x, coefficients):
    """The polynomial with these coefficients, highest degree first: one fma a degree."""
    total = coefficients[0]
    for c in coefficients[1:]:
        total = fma(total, x, c)
    return total


def exp_f64(x):
    x = where(x > 710.0, 710.0, x)
    x = where(x < -746.0, -746.0, x)
    tiny = x < -708.0  # results below 2^-1021 are made 2^64 times larger, then scaled: one rounding into the subnormals
    magic = where(tiny, float64(6755399441055744.0 + 1022 + 64), 6755399441055744.0 + 1022)
    t = fma(x, LOG2E, magic)
    n = t - magic
    r = fma(n, -LN2_LO_64, fma(n, -LN2_HI_64, x))
    y = horner(r, EXP_64) * from_bits64(bits(t) << 52)
    return where(tiny, y * 5.421010862427522e-20, y)  # 2^-64


def exp_f32(x):
    x = where(x > 89.0, 89.0, x)
    x = where(x < -105.0, -105.0, x)
    tiny = x < -86.0
    magic = where(tiny, float32(12582912.0 + 126 + 64), 12582912.0 + 126)
    t = fma(x, LOG2E, magic)
    n = t - magic
    r = fma(n, -LN2_LO_32, fma(n, -LN2_HI_32, x))
    y = horner(r, EXP_32) * from_bits32(bits(t) << 23)
    return where(tiny, y * 5.421010862427522e-20, y)


def log_f64(x):
    tiny = x < 2.2250738585072014e-308
    u = where(tiny, x * 18014398509481984.0, x)  # 2^54: subnormals become normal
    i = bits(u) + 0x00095F619980C433  # bits(1) - bits(sqrt(1/2)): the exponent field now changes at sqrt(1/2) 2^k
    k = from_bits64((i >> 52) | 0x4330000000000000) - where(tiny, float64(4503599627370496.0 + 1023 + 54), 4503599627370496.0 + 1023)
    f = from_bits64((i & 0x000FFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD) - 1.0
    high = fma(k, LN2_SHORT_64, f)
    low = f - fma(k, -LN2_SHORT_64, high)
    y = high + fma(f * f, horner(f, LOG_64), fma(k, LN2_REST_64, low))
    y = where(x > 0.0, y, where(x == 0.0, float64(-INF), NAN))
    return where(x < INF, y, x)


def log_f32(x):
    tiny = x < 1.1754943508222875e-38
    u = where(tiny, x * 33554432.0, x)
    i = bits(u) + 0x004AFB0D
    k = from_bits32((i >> 23) | 0x4B000000) - where(tiny, float32(8388608.0 + 127 + 25), 8388608.0 + 127)
    f = from_bits32((i & 0x007FFFFF) + 0x3F3504F3) - 1.0
    high = fma(k, LN2_SHORT_32, f)
    low = f - fma(k, -LN2_SHORT_32, high)
    y = high + fma(f * f, horner(f, LOG_32), fma(k, LN2_REST_32, low))
    y = where(x > 0.0, y, where(x == 0.0, float32(-INF), NAN))
    return where(x < INF, y, x)


FUNCTIONS = {
    "exp": (exp_f32, exp_f64),
    "log": (log_f32, log_f64),
}
