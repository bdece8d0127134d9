"""Kernels of S-maps; the equations are numbered in `models.edm`.

Arguments that recur
    x, y        coordinates of candidates and points, shape (n_dims, n)
    place, s    their times; candidates at most `radius` from a point in time do not count, nor those beyond
                `limit` of it
    mean        mean distance of each point from its candidates
"""

import portable as pk


@pk.function
def distance_of(n_dims, x, j, y, i):
    """Distance of candidate j and point i."""
    d = 0.0
    for e in range(n_dims):
        u = x[e, j] - y[e, i]
        d += u * u
    return pk.sqrt(d)


@pk.function
def among(place, s, radius, d, limit):
    """Whether a candidate counts for the point of time s."""
    return (abs(place - s) > radius) & (d <= limit)


@pk.kernel
def mean_distance(i, n_dims, radius, place, s, x, y, limit, mean):
    """The mean distance of point i from its candidates. 2 E operations a candidate."""
    total = 0.0
    count = 0.0
    for j in range(place.shape[0]):
        d = distance_of(n_dims, x, j, y, i)
        counts = among(place[j], s[i], radius, d, limit[i])
        total += pk.where(counts, d, 0.0)
        count += pk.where(counts, 1.0, 0.0)
    mean[i] = total / count


@pk.kernel
def triangles(h, i, n_most, n_dims, radius, place, s, x, y, limit, mean, theta, target, triangle):
    """Least squares (5) at point i for theta[h], reduced to a triangle by a Givens rotation a candidate and
    coordinate.

    triangle : shape (n_thetas, n_rows, n_rows + 1, n_points), n_rows = E + 1: R, and Q' y in its last column,
        of the rows
        w (1, x_j - x_i). So the first unknown is the prediction itself, and columns are small where weights
        are not.
    n_most : compile-time bound of n_rows

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
    for p in range(n_rows):
        for q in range(n_rows + 1):
            triangle[h, p, q, i] = r[p, q] if q >= p else 0.0
