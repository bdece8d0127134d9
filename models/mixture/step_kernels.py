"""The M-step for full covariances, one component per index; the component's matrices stay in the memory of
the points' space.

Arguments that recur; components are the last index, adjacent in memory, and all numbers but `records` are
float64
    means       shape (p, k)
    covariance, factor
                lower triangles, shape (p (p + 1) / 2, k): number a (a + 1) / 2 + b is entry (a, b); the
                factor is L^-1
    m, scale    of the prior: its mean, shape (p,), and Psi, shape (p, p); zeros without a prior
    pull        1 / g, and 0 without a prior
    dof         nu + p + 2, and 0 without a prior
    floors      shape (p, k): the smallest permitted pivots of Cholesky's factorisation; smaller ones are
                rounding errors
    centre      vector that was subtracted from the points, shape (p,)
"""

import math

import portable as pk

from .kernels import LOG_ZERO

TINY = 1e-300  # replaces a count of 0
HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)


@pk.kernel
def maximise(
    j,
    added,
    references,
    chosen,
    centre,
    m,
    scale,
    pull,
    dof,
    reg_covar,
    rounding,
    counts,
    means,
    covariance,
    floors,
):
    """Compute the counts n_j of (3), means (5) and covariances (6) from the sums of `moments`. A component
    without points and prior keeps its mean.

    A variance is a difference of sums about a reference. Its rounding error is `rounding` times the square
    that is subtracted, which is large only about the common centre; under a prior, which guarantees finite
    results, `rounding` times the whole sum.
    """
    p = means.shape[0]
    n = added[j, 0]
    counts[j] = n
    share, whole, divisor = 1.0 / max(n, TINY), max(n + pull, TINY), max(n + dof, TINY)
    for a in range(p):
        if n > 0.0:
            means[a, j] = references[chosen[j], a] + centre[a] + added[j, (a + 1) * (a + 2) // 2] * share
    for a in range(p):
        row = (a + 1) * (a + 2) // 2
        for b in range(a + 1):
            scatter = added[j, row + b + 1] - added[j, row] * added[j, (b + 1) * (b + 2) // 2] * share
            spread = n * pull / whole * (means[a, j] - m[a]) * (means[b, j] - m[b])
            value = (scale[a, b] + scatter + spread) / divisor
            covariance[a * (a + 1) // 2 + b, j] = value + reg_covar if a == b else value
        square = added[j, row] * share * (added[j, row] * share) if chosen[j] == 0 else 0.0
        floors[a, j] = rounding * (added[j, row + a + 1] * share if dof > 0.0 else square)
    for a in range(p):
        if n + pull > 0.0:
            means[a, j] = (n * means[a, j] + pull * m[a]) / whole


@pk.function
def factorise(j, p, floors, covariance, factor):
    """Compute L^-1 of component j, row by row in the memory of L, and return the number of pivots that were
    not positive. p^3 operations.

    If a pivot is below its floor, the difference is added to the variance.
    """
    bad = 0
    for a in range(p):
        row = a * (a + 1) // 2
        for b in range(a + 1):
            column = b * (b + 1) // 2
            rest = covariance[row + b, j]
            for c in range(b):
                rest -= factor[row + c, j] * factor[column + c, j]
            if b < a:
                factor[row + b, j] = rest * factor[column + b, j]
            else:
                if rest < floors[a, j]:
                    covariance[row + a, j] += floors[a, j] - rest
                    rest = floors[a, j]
                bad += 0 if rest > 0.0 else 1
                factor[row + a, j] = 1.0 / math.sqrt(rest if rest > 0.0 else 1.0)
    for a in range(p):
        row = a * (a + 1) // 2
        for b in range(a):  # entries of L before column b are no longer needed
            total = 0.0
            for c in range(b, a):
                total += factor[row + c, j] * factor[c * (c + 1) // 2 + b, j]
            factor[row + b, j] = -total * factor[row + a, j]
    return bad


@pk.kernel
def prepare(j, log_weights, centre, m, scale, pull, dof, means, floors, covariance, factor, records, found):
    """Write the record of component j for `log_joint`, and its part of the objective.

    found   shape (3, k): number of pivots that are not positive; twice the term of (8) that is subtracted for
            this component; |L^-1 (mu - centre)|^2
    """
    p = means.shape[0]
    o = j * (records.shape[0] // means.shape[1])
    bad = factorise(j, p, floors, covariance, factor)
    log_scale, far, away, trace = 0.0, 0.0, 0.0, 0.0
    for a in range(p):
        row, first, shift, pulled = a * (a + 1) // 2, o, 0.0, 0.0
        for b in range(a + 1):
            entry, along = factor[row + b, j], 0.0
            o += 1
            records[o] = entry
            shift += entry * (means[b, j] - centre[b])
            pulled += entry * (means[b, j] - m[b])
            if dof > 0.0:
                for c in range(a + 1):
                    along += scale[b, c] * factor[row + c, j]
                trace += entry * along
        records[first] = -shift
        far += shift * shift
        away += pulled * pulled
        log_scale += pk.log(factor[row + a, j])
        o += 1
    records[o] = max(log_weights[j] - p * HALF_LOG_2_PI + log_scale, LOG_ZERO)
    found[0, j] = bad
    found[1, j] = trace + pull * away - 2.0 * dof * log_scale
    found[2, j] = far
