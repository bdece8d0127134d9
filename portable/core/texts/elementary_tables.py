"""Define the constants of the elementary functions: a pair per name, for float64 and float32.

Polynomials are our own Remez fits, highest degree first. Each was fitted in 70 digits for relative error; its
low coefficients were rounded to the type one after another and the others refitted, so that the evaluated
polynomial is the fitted one. The bound given with each applies to the polynomial only.

A constant in two parts is its nearest number of the type, and the number nearest to the remainder.
"""

from types import SimpleNamespace

from ..language.words import float32, float64

# ---- layout of floats: bits of the fraction and of the exponent, position of the sign
DIGITS = 52, 23
SIGN = 62, 30  # shift of a quadrant's second bit to the sign
FRACTION = 0x000FFFFFFFFFFFFF, 0x007FFFFF
EXPONENT = 0x7FF0000000000000, 0x7F800000
UNIT = 0x4330000000000000, 0x4B000000  # bits of 2^52 and 2^23: n in the low bits gives the float 2^52 + n
BIASED = 2.0**52 + 1023, 2.0**23 + 127
LEAST, LIFT = (2.0**-1022, 2.0**-126), (2.0**54, 2.0**25)  # least normal number; scale of subnormals
BIASED_TINY = float64(2.0**52 + 1023 + 54), float32(2.0**23 + 127 + 25)
# added to a number of magnitude below 2^51 (2^22), it leaves the nearest integer in the low bits
ROUND = 1.5 * 2.0**52, 1.5 * 2.0**23
ONE = ROUND[0] + 1023, ROUND[1] + 127  # `power` maps it to 1
HALF = ROUND[0] + 1022, ROUND[1] + 126
# subnormal results are first computed 2^54 (2^25) times larger
HALF_TINY, SHRINK = (float64(HALF[0] + 54), float32(HALF[1] + 25)), (2.0**-54, 2.0**-25)
DIVIDED = (2.0**50, 2.0**32), (2.0**21, 2.0**16)  # `exact` and `more` of a division

# ---- limits of arguments: least, largest, and small
EXP_ENDS = (-745.83, 710.0, -708.0), (-104.67, 89.0, -86.0)
EXP2_ENDS = (-1076.0, 1025.0, -1021.0), (-151.0, 129.0, -125.0)
POW_ENDS = (1e20, 1100.0), (1e12, 160.0)  # limits of the magnitudes of the exponent and of the logarithm
SIN_SMALL, SIN_NEAR = (1e-9, 1e-4), (6.5e6, 6400.0)

# ---- constants in two parts. fma(n, -LN2, x) is exact: with |r| <= 1/2 it is a multiple of half an ulp of
# ln 2. SHORT ends in zeros, so that n * SHORT is exact.
LOG2E = (1.4426950408889634, 2.0355273740931033e-17), (1.4426950216293335, 1.925963033500011e-08)
LN2 = (0.6931471805599453, 2.3190468138462996e-17), (0.6931471824645996, -1.9046542121259336e-09)
LN2_SHORT = (0.6931471805601177, -1.7239444525614835e-13), (0.69317626953125, -2.9088971132296138e-05)
ROOT_HALF_BITS = 0x3FE6A09E667F3BCD, 0x3F3504F3
FROM_ROOT_HALF = 0x00095F619980C433, 0x004AFB0D  # bits of 1 minus these bits
TWO_OVER_PI = 0.6366197723675814, 0.6366197466850281
HALF_PI = (
    (1.5707963267948966, 6.12323399409214e-17, 1.6446256936324258e-26),
    (1.5707963705062866, -4.371395334601402e-08, 2.5633440682570896e-12),
)
# zeros appended to m, position of the first bits of 2/pi; 2^-58 pi/2 in two parts
FAR_SHIFT, FAR_FIRST = (0, 29), (1017, 121)
FAR_SCALE = (5.449794528138487e-18, 2.1244235522607673e-34), (5.449794679792836e-18, -1.5165434285708382e-25)
POW_FIRST = (2.8853900817779268, 4.0710547481862066e-17), (2.885390043258667, 3.851926067000022e-08)
POW_THIRD = (0.9617966939259756, 5.0577616648125907e-17), (0.9617967009544373, -7.028461812552678e-09)

# 2 exp(r) on |r| <= ln(2)/2; the last two are exact. Bounds 4e-18 and 3e-9.
EXP = (
    (
        4.9975876712635074e-08,
        5.525937471230171e-07,
        5.511525780187123e-06,
        4.960298951243242e-05,
        0.00039682538903589834,
        0.0027777777883925344,
        0.01666666666705033,
        0.08333333333307302,
        0.333333333333327,
        1.000000000000002,
        2.0,
        2.0,
    ),
    (
        0.0027638794854283333,
        0.016737347468733788,
        0.08333656191825867,
        0.3333304226398468,
        0.9999998807907104,
        2.0,
        2.0,
    ),
)

# 2 * 2^r on |r| <= 1/2. Bounds 4e-18 and 5e-9.
EXP2 = (
    (
        8.877790392264535e-10,
        1.4146465217461573e-08,
        2.035631968607588e-07,
        2.6430877676200814e-06,
        3.0505467268764423e-05,
        0.00030807060898065884,
        0.002666711629309212,
        0.019236258215203212,
        0.11100821732964344,
        0.48045301391820217,
        1.3862943611198906,
        2.0,
    ),
    (
        0.0003136739833280444,
        0.002684669103473425,
        0.01923472248017788,
        0.11100523173809052,
        0.48045310378074646,
        1.3862944841384888,
        2.0,
    ),
)


# (log(1 + f) - f + f^2/2) / f^3 on sqrt(1/2) <= 1 + f < sqrt(2), weighted for the relative error of log:
# 9e-18 and 6e-9.
LOG = (
    (
        0.026151096747686568,
        -0.05981672464268372,
        0.06503437273924516,
        -0.05677779546509913,
        0.05668396617162367,
        -0.06196683078882495,
        0.06684586189965731,
        -0.07149438587155924,
        0.07691530071071574,
        -0.08332913629804643,
        0.0909092391843982,
        -0.10000015201466768,
        0.11111111147936602,
        -0.1249999969158835,
        0.1428571428008217,
        -0.16666666669823588,
        0.20000000000066767,
        -0.2499999999998799,
        0.3333333333333314,
    ),
    (
        -0.07641126960515976,
        0.12765303254127502,
        -0.1315932273864746,
        0.1420108526945114,
        -0.16623364388942719,
        0.20001260936260223,
        -0.250008225440979,
        0.3333333134651184,
    ),
)

# pow: log2(1 + f) = s (2/ln 2) + s^3 (C3 + z Q(z)) with s = f / (2 + f), z = s^2; C3 in two parts is in
# POW_THIRD. Bounds 1e-22 and 9e-12, relative to s.
POW = (
    (
        0.17205219754859724,
        0.16855183275667318,
        0.1923958782139587,
        0.22195242791609948,
        0.2623081960518302,
        0.32059889793716717,
        0.4121985831112279,
        0.5770780163555853,
    ),
    (0.33782079815864563, 0.4118499159812927, 0.5770801901817322),
)


# (sin(r) - r) / r^3 and (cos(r) - 1 + z/2) / z^2 in z = r^2, |r| <= pi/4. Bounds 4e-18, 2e-10 and 9e-20,
# 2e-10.
SIN = (
    (
        1.5895642447616757e-10,
        -2.505073774230974e-08,
        2.755731355736653e-06,
        -0.00019841269829400993,
        0.00833333333332187,
        -0.1666666666666663,
    ),
    (2.8484810172813013e-06, -0.00019854638958349824, 0.00833338312804699, -0.1666666716337204),
)
COS = (
    (
        -1.1365021874044795e-11,
        2.0875839046767414e-09,
        -2.755731531525053e-07,
        2.480158729331764e-05,
        -0.0013888888888881363,
        0.04166666666666665,
    ),
    (2.4461520297336392e-05, -0.0013887608656659722, 0.041666653007268906),
)


def constants_of(names):
    """Return the constants among a module's names, for float64 and for float32."""
    pairs = {name: pair for name, pair in names.items() if name.isupper() and isinstance(pair, tuple)}
    return [{name: pair[k] for name, pair in pairs.items()} for k in (0, 1)]


# functions find the constants of their type here
T, T32 = (SimpleNamespace(**constants) for constants in constants_of(dict(globals())))

# 2/pi in words of 60 bits, after one word of zeros; and each four successive words, with the first's index.
_WORDS = (
    0x000000000000000,
    0xA2F9836E4E44152,
    0x9FC2757D1F534DD,
    0xC0DB6295993C439,
    0x041FE5163ABDEBB,
    0xC561B7246E3A424,
    0xDD2E006492EEA09,
    0xD1921CFE1DEB1CB,
    0x129A73EE88235F5,
    0x2EBB4484E99C702,
    0x6B45F7E413991D6,
    0x39835339F49C845,
    0xF8BBDF9283B1FF8,
    0x97FFDE05980FEF2,
    0xF118B5A0A6D1F6D,
    0x367ECF27CB09B74,
    0xF463F669E5FEA2D,
    0x7527BAC7EBE5F17,
    0xB3D0739F78A5292,
    0xEA6BFB5FB11F8D5,
    0xD0856033046FC7B,
)
FOURS_OF_TWO_OVER_PI = tuple((k, *_WORDS[k : k + 4]) for k in range(len(_WORDS) - 3))
