"""Kernels for the points of one series: neighbours in one dimension, predictions, and their correlation with
the observations; the equations are numbered in `portable.models.edm`.

Arguments that recur
    distances, times  of the neighbours of each point, ascending, shape (n_points, k); infinity and -1 beyond
                the last neighbour
    out         predictions, point by point, each for all targets; then variances in the same order
"""

import math

import portable as pk

from .kernels import IN_FLIGHT, centre_of, fold, power_of_two, scale_of, standard, start, summary_of, value_at
from .list_kernels import weight_of


@pk.kernel
def nearest_on_line(i, k, n_known, radius, first_time, first_point, values, order, points, distances, times):
    """Find the k nearest candidates of point i in one dimension, by bisection of the sorted candidates and a
    search outwards from there.

    values, order : the candidates' coordinates, of times first_time, first_time + 1, ...; the indices that
        sort them, of which the first n_known are used
    points : coordinates at all times; point i is of time first_point + i
    """
    s = first_point + i
    here = points[s]
    right = 0
    end = n_known
    while right < end:
        middle = (right + end) // 2
        if values[order[middle]] < here:
            right = middle + 1
        else:
            end = middle
    left = right - 1
    n = 0
    going = pk.isfinite(here)
    while going:
        q_left = order[max(left, 0)]
        q_right = order[min(right, n_known - 1)]
        below = (values[q_left] - here) * (values[q_left] - here) if left >= 0 else math.inf
        above = (values[q_right] - here) * (values[q_right] - here) if right < n_known else math.inf
        d = min(below, above)
        t = first_time + (q_left if below <= above else q_right)
        going = d < math.inf and (n < k or d <= distances[i, k - 1])
        if going and abs(t - s) > radius and (n < k or d < distances[i, k - 1] or t < times[i, k - 1]):
            m = min(n, k - 1)
            while m > 0 and (distances[i, m - 1] > d or (distances[i, m - 1] == d and times[i, m - 1] > t)):
                distances[i, m] = distances[i, m - 1]
                times[i, m] = times[i, m - 1]
                m -= 1
            distances[i, m] = d
            times[i, m] = t
            n = min(n + 1, k)
        left -= 1 if below <= above else 0
        right += 0 if below <= above else 1
    for m in range(k):
        distances[i, m] = pk.sqrt(distances[i, m]) if m < n else math.inf
        times[i, m] = times[i, m] if m < n else -1


@pk.kernel
def store_neighbour(i, m, n_columns, shift, summary, distances, times, far, rows):
    """Store distance m of point i in the units of the library, NaN if the point has fewer than k neighbours;
    and the neighbour's row in the embedding, -1 if there is none. 24 bytes.

    n_columns : number of columns of the library
    shift : time of row 0 of the embedding
    """
    t = times[i, m]
    d = pk.float64(distances[i, m]) * scale_of(summary, 0, n_columns)
    far[i, m] = pk.where(times[i, times.shape[1] - 1] >= 0, d, math.nan)
    rows[i, m] = pk.where(t >= 0, pk.int64(t) - shift, -1)


@pk.kernel
def measure_listed(i, m, candidates, points, rows, near, distances):
    """Store the distance (1) of point rows[i] from candidate near[i, m], with the terms in the order of
    `list_kernels.add_term`.

    candidates, points : shape (n_coordinates, n)
    """
    d = 0.0
    for e in range(candidates.shape[0]):
        u = points[e, rows[i]] - candidates[e, near[i, m]]
        d += u * u
    distances[i, m] = pk.sqrt(d)


@pk.function
def standard_at(distance, single, columns, mean, spread, t, q):
    """Return target q at time t, (y - mean) / spread, in the dtype of the distances."""
    value = standard(value_at(single, columns, t, q), mean, spread)
    return pk.float64(value) if distance.dtype == pk.float64 else pk.float32(value)


@pk.function
def rounded(a, b):
    """Return a product that is rounded before it is used, not fused with an addition."""
    return a * b


@pk.function
def prediction(k, Tp, distance, time, single, columns, mean, spread, q):
    """Return the simplex prediction (3) of target q from k neighbours, and their weighted variance about it,
    in the units of the target; NaN if there are fewer neighbours. Two exponentials a neighbour."""
    nearest = distance[0]
    total = 0.0
    value = 0.0
    for m in range(k):
        w = weight_of(distance[m], nearest)
        u = standard_at(distance, single, columns, mean, spread, max(time[m] + Tp, 0), q)
        total += w
        value += w * u
    value /= total
    square = 0.0
    for m in range(k):
        u = standard_at(distance, single, columns, mean, spread, max(time[m] + Tp, 0), q) - value
        square += weight_of(distance[m], nearest) * u * u
    known = time[k - 1] >= 0
    predicted = rounded(pk.float64(value), spread) + mean
    variance = pk.float64(square / total) * rounded(spread, spread)
    return pk.where(known, predicted, math.nan), pk.where(known, variance, math.nan)


@pk.kernel
def project(a, b, point_last, n_targets, Tp, distances, times, summary, columns, out):
    """Store the `prediction` of point a for target b.

    point_last : compile-time constant, True if a is the target and b the point; adjacent lanes process
        adjacent b
    summary, columns : from `summarise`, and its input, of which the first n_targets columns are the targets
    """
    i, q = (b, a) if point_last else (a, b)
    n_points = distances.shape[0]
    k = distances.shape[1]
    mean, spread = summary[2, q], summary[3, q]
    found = prediction(k, Tp, distances[i], times[i], False, columns, mean, spread, q)
    out[i * n_targets + q], out[(n_points + i) * n_targets + q] = found


@pk.function
def load_pair(of, i, own, m):
    """Load the prediction and the observation of point i, after a 1; three zeros if either is missing."""
    q, n_targets, single, every, asked, observed, out = of
    o = pk.float64(value_at(single, observed, i, q))
    p = out[i if n_targets == 1 else i * n_targets + q]
    there = pk.isfinite(p) & pk.isfinite(o)
    if not every:
        there = there & (asked[i, 0] > 0)
    own[0, m] = pk.where(there, 1.0, 0.0)
    own[1, m] = pk.where(there, p, 0.0)
    own[2, m] = pk.where(there, o, 0.0)


@pk.function
def with_pair(own, m, state):
    """Update the number of pairs, and the sums of predictions and observations, by one pair."""
    n, p, o = state
    return n + own[0, m], p + own[1, m], o + own[2, m]


@pk.function
def about(own, m, means):
    """Return the deviations of a pair from the means; zeros if the pair is missing."""
    there = own[0, m] > 0.0
    return pk.where(there, own[1, m] - means[0], 0.0), pk.where(there, own[2, m] - means[1], 0.0)


@pk.function
def with_widest(own, m, state):
    """Update the largest absolute deviations from the means by one pair."""
    means, p_most, o_most = state
    p, o = about(own, m, means)
    return means, max(p_most, abs(p)), max(o_most, abs(o))


@pk.function
def with_products(own, m, state):
    """Update the sums of squares and products of scaled deviations from the means by one pair."""
    means, scales, pp, oo, po = state
    p, o = about(own, m, means)
    p *= scales[0]
    o *= scales[1]
    return means, scales, pp + p * p, oo + o * o, po + p * o


@pk.function
def unit_of(most):
    """Return a power of two that scales `most` to near 1, so that squares neither overflow nor vanish."""
    return min(1.0 / power_of_two(most), 2.0**1023)


@pk.function
def correlation(team, least, n_points, of):
    """Return Pearson's rho (4) of the pairs of `load_pair`, computed by a team. 16 bytes a point, three
    times.

    least : NaN is returned if the largest deviation of the predictions does not exceed this share of that of
        the observations: it is attributed to rounding
    """
    zero = pk.float64(0.0)
    n, p, o = fold(team, n_points, IN_FLIGHT, 3, load_pair, with_pair, of, (zero, zero, zero))
    n = team.reduce(n)
    means = team.reduce(p) / n, team.reduce(o) / n
    _, p, o = fold(team, n_points, IN_FLIGHT, 3, load_pair, with_widest, of, (means, zero, zero))
    p_most = team.reduce(p, pk.Max)
    o_most = team.reduce(o, pk.Max)
    scales = unit_of(p_most), unit_of(o_most)
    begin = means, scales, zero, zero, zero
    _, _, pp, oo, po = fold(team, n_points, IN_FLIGHT, 3, load_pair, with_products, of, begin)
    spread = pk.sqrt(team.reduce(pp) * team.reduce(oo))
    varies = (n >= 2.0) & (p_most > least * o_most) & (spread > 0.0)
    return pk.where(varies, team.reduce(po) / spread, math.nan)


@pk.kernel
def correlate_points(team, least, n_points, n_targets, single, every, asked, observed, out, rho):
    """Store the `correlation` of predictions and observations of each target, one team per target.

    n_points : number of points whose predicted times are in `observed`, from its first row on
    n_targets : a compile-time constant if it is 1, when predictions are contiguous in memory
    single, observed : as in `value_at`
    every : compile-time constant, True to use all points; False to use those where `asked` is positive
    """
    of = team.league_rank, n_targets, single, every, asked, observed, out
    found = correlation(team, least, n_points, of)
    if team.single():
        rho[team.league_rank] = found


@pk.function
def keep_nearest(k, d, t, distance, time):
    """Insert a candidate at distance d and time t into the sorted list of the k nearest, if it is nearer than
    the last."""
    for q in range(k - 1):
        m = k - 1 - q
        before = d < distance[m - 1]
        here = d < distance[m]
        time[m] = pk.where(before, time[m - 1], pk.where(here, t, time[m]))
        distance[m] = pk.where(before, distance[m - 1], pk.where(here, d, distance[m]))
    time[0] = pk.where(d < distance[0], t, time[0])
    distance[0] = min(d, distance[0])


@pk.function
def nearest_in(series, n_dims, tau, radius, first, last, s, own, k, distance, time):
    """Find the k nearest candidates of the point of time s, sorted, among the times from `first` to
    `last`."""
    for m in range(k):
        distance[m] = math.inf
        time[m] = -1
    for e in range(n_dims):
        own[e] = series[s - e * tau]
    for t in range(first, last):
        d = start(t, s, radius)
        for e in range(n_dims):
            u = own[e] - series[t - e * tau]
            d += u * u
        keep_nearest(k, d, pk.int32(t), distance, time)
    for m in range(k):
        distance[m] = pk.sqrt(distance[m])


@pk.kernel
def simplex_of_few(team, k, n_dims, tau, Tp, radius, least, first, last, like, x, out):
    """Compute the simplex projection (3) of one short complete series, its variances and rho (4), by one
    team. 3 E + 6 k operations a pair of points.

    k, n_dims : compile-time constants
    first, last : first time of the candidates, and the end of their times (exclusive)
    like : any array with the dtype of distances
    out : predictions, variances, observations, and rho
    """
    n_times, n_points = x.shape[0], (out.shape[0] - 1) // 3
    series, front = team.scratch(n_times, like.dtype), n_times - n_points
    own, distance, time = pk.local(n_dims, like.dtype), pk.local(k, like.dtype), pk.local(k, pk.int32)
    low, high, mean, spread = summary_of(team, True, x, 0)
    centre, unit = centre_of(low, high, mean), 1.0 / power_of_two(high - low)
    for t in team.thread_range(n_times):
        series[t] = (x[t] - centre) * unit
    team.barrier()
    begin = front + Tp
    for i in team.thread_range(n_points):
        nearest_in(series, n_dims, tau, radius, first, last, front + i, own, k, distance, time)
        out[i], out[n_points + i] = prediction(k, Tp, distance, time, True, x, mean, spread, 0)
        t = begin + i
        out[2 * n_points + i] = x[min(max(t, 0), n_times - 1)] if 0 <= t < n_times else math.nan
    team.barrier()
    skip = max(-begin, 0)
    n = max(min(n_points, n_times - begin) - skip, 0)
    rho = correlation(team, least, n, (0, 1, True, True, out, x[begin + skip :], out[skip:]))
    if team.single():
        out[3 * n_points] = rho
