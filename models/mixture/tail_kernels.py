"""Kernels of mixtures of t distributions, which start from the Gaussian l_ij of (1); arguments as in
`kernels`.

With c_j the logarithm of component j's normal density at its mean, weight included, the squared distance is
delta_ij = 2 (c_j - l_ij), and with nu_j degrees of freedom

    t_ij   = c_j + shift_j - (nu_j + p) / 2 log(1 + delta_ij / nu_j)
    u_ij   = (1 + p / nu_j) / (1 + delta_ij / nu_j)

    tails       shape (4, k): c_j, shift_j, (nu_j + p) / 2 and 1 / nu_j, which is 0 for a normal component
    noise       logarithm of the uniform component's density, weight included; LOG_ZERO without one
"""

import portable as pk

from .kernels import LOG_ZERO, PAD, share


@pk.function
def stretched(tile, j, column, tails, joint):
    """Return 1 + delta_ij / nu_j; 1 for a normal component."""
    return 1.0 + max(2.0 * (tails[0, j] - joint[tile, j, column]), 0.0) * tails[3, j]


@pk.function
def t_term(tile, j, column, tails, joint):
    """Return t_ij; l_ij for a normal component."""
    own = stretched(tile, j, column, tails, joint)
    heavy = tails[0, j] + tails[1, j] - tails[2, j] * pk.log(own)
    return heavy if tails[3, j] > 0.0 else joint[tile, j, column]


@pk.function
def scale_of(p, tile, j, column, tails, joint):
    """Return u_ij."""
    return (1.0 + p * tails[3, j]) / stretched(tile, j, column, tails, joint)


@pk.kernel
def normalise_tails(i, k, n, noise, tails, joint, lse):
    """The logarithm of the sum of exp t_ij and the noise, stored in row 0 of `lse` and returned. Beyond the n
    points the stored value is so large that all shares vanish. Two logarithms and two exponentials a pair."""
    tile, column = i // PAD, i % PAD
    top = noise
    for j in range(k):
        top = max(top, t_term(tile, j, column, tails, joint))
    total = pk.exp(noise - top)
    for j in range(k):
        total += pk.exp(t_term(tile, j, column, tails, joint) - top)
    value = top + pk.log(total)
    lse[0, i] = value if i < n else -LOG_ZERO
    return pk.float64(value) if i < n else pk.float64(0.0)


@pk.kernel
def sum_tails(team, n, p, tails, joint, lse, total):
    """Sum r_ij, r_ij u_ij and r_ij (log u_ij - u_ij) over points; one team per component."""
    j = team.league_rank
    count, weight, spread = pk.float64(0.0), pk.float64(0.0), pk.float64(0.0)
    for i in team.thread_range(n):
        tile, column = i // PAD, i % PAD
        log_r = t_term(tile, j, column, tails, joint) - lse[0, i]
        r = share(pk.exp, log_r)
        u = scale_of(p, tile, j, column, tails, joint)
        count += r
        weight += r * u
        spread += r * (pk.log(u) - u)
    for c, own in enumerate((count, weight, spread)):
        own = team.reduce(own)
        if team.single():
            total[j, c] = own


@pk.kernel
def weigh_tails(tile, column, k, p, weighted, tails, joint):
    """Replace l_ij by t_ij, from which shares follow, plus log u_ij if `weighted` (at compile time)."""
    for j in range(k):
        own = t_term(tile, j, column, tails, joint)
        if weighted:
            own += pk.log(scale_of(p, tile, j, column, tails, joint))
        joint[tile, j, column] = own
