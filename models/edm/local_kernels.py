"""Kernels of S-maps; the equations are numbered in `portable.models.edm`.

Arguments that recur
    x, y        coordinates of candidates and points, shape (n_dims, n)
    place, s    times of candidates and points; candidates within `radius` time steps of a point, or at a
                distance above `limit`, are excluded
    mean        mean distance of each point from its candidates, mean d in (5)
"""

import math

import portable as pk


@pk.function
def distance_of(n_dims, x, j, y, i):
    """Return the distance (1) of candidate j from point i."""
    d = 0.0
    for e in range(n_dims):
        u = x[e, j] - y[e, i]
        d += u * u
    return pk.sqrt(d)


@pk.function
def among(place, s, radius, d, limit):
    """Return True if a candidate of time `place` at distance d is used for the point of time s."""
    return (abs(place - s) > radius) & (d <= limit)


@pk.kernel
def mean_distance(i, n_dims, radius, place, s, x, y, limit, mean):
    """Store the mean distance of point i from its candidates. 2 E operations a candidate."""
    total = 0.0
    count = 0.0
    for j in range(place.shape[0]):
        d = distance_of(n_dims, x, j, y, i)
        counts = among(place[j], s[i], radius, d, limit[i])
        total += pk.where(counts, d, 0.0)
        count += pk.where(counts, 1.0, 0.0)
    mean[i] = total / count


@pk.function
def substitute(n_rows, r, x):
    """Solve the upper triangular system r for x by back substitution; the last column of r is the right-hand
    side. Returns the smallest ratio of a diagonal entry to the norm of its column.
    """
    least = math.inf
    for m in range(n_rows):
        p = n_rows - 1 - m
        rest = r[p, n_rows]
        square = 0.0
        for q in range(p + 1, n_rows):
            rest -= r[p, q] * x[q]
        for q in range(p + 1):
            square += r[q, p] * r[q, p]
        x[p] = rest / r[p, p]
        least = min(least, pk.where(square > 0.0, abs(r[p, p]) / pk.sqrt(square), 0.0))
    return least


@pk.kernel
def fit(
    h, i, n_most, n_dims, radius, place, s, x, y, limit, mean, theta, target, units, least, solution, triangle
):
    """Solve the weighted least squares (5) at point i for theta[h] by QR: Givens rotations, one per candidate
    and coordinate, give a triangular system, which is solved by back substitution.

    solution : shape (n_thetas, n_rows + 2, n_points), n_rows = E + 1: the prediction, the smallest ratio of a
        diagonal entry of R to the norm of its column, and the coefficients, the intercept first
    triangle : shape (n_thetas, n_rows, n_rows + 1, n_points): if that ratio does not exceed `least`, R, and
        Q' y in its last column, of the rows w (1, x_j - x_i). Centred at x_i, the first unknown is the
        prediction itself, and entries are small where weights are large
    n_most : compile-time upper bound of n_rows
    units : the units of `target`, and of `x` and `y`, by which results are multiplied and divided

    3 (E + 1)^2 operations, E + 1 square roots and an exponential a candidate.
    """
    r = pk.local((n_most, n_most + 1), x.dtype)
    a = pk.local(n_most + 1, x.dtype)
    n_rows = n_dims + 1
    for p in range(n_rows):
        for q in range(p, n_rows + 1):
            r[p, q] = 0.0
    scale = pk.where(mean[i] > 0.0, -theta[h] / mean[i], 0.0)
    for j in range(place.shape[0]):
        d = distance_of(n_dims, x, j, y, i)
        counts = among(place[j], s[i], radius, d, limit[i]) & pk.isfinite(target[j])
        w = pk.where(counts, pk.exp(scale * d), 0.0)
        a[0] = w
        for e in range(n_dims):
            a[e + 1] = w * (x[e, j] - y[e, i])
        a[n_rows] = pk.where(counts, w * target[j], 0.0)
        for p in range(n_rows):
            size = pk.sqrt(r[p, p] * r[p, p] + a[p] * a[p])
            per_size = pk.where(size > 0.0, 1.0 / size, 0.0)
            cosine = pk.where(size > 0.0, r[p, p] * per_size, 1.0)
            sine = a[p] * per_size
            for q in range(p, n_rows + 1):
                above = r[p, q]
                r[p, q] = cosine * above + sine * a[q]
                a[q] = cosine * a[q] - sine * above
    share = substitute(n_rows, r, a)
    predicted = a[0] * units[0]
    intercept = predicted
    for e in range(n_dims):
        slope = a[e + 1] * units[0]
        intercept -= slope * y[e, i]
        solution[h, 3 + e, i] = slope / units[1]
    solution[h, 0, i] = predicted
    solution[h, 1, i] = share
    solution[h, 2, i] = intercept
    if not share > least:
        for p in range(n_rows):
            for q in range(n_rows + 1):
                triangle[h, p, q, i] = r[p, q] if q >= p else 0.0
