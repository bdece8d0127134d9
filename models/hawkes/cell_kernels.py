"""Kernels that find nearby events by means of cells in space, and kernels that sum over the resulting
lists of pairs.

Arguments that recur, besides those of `portable.models.hawkes.kernels`
    x, t            locations (and marks) as there, and times, shape (n_events,), sorted by cell, then by time
    cell            cell coordinates of each event, shape (n_dims, n_events)
    start           start[k] is the first event of cell k; cells are numbered with the last dimension fastest
    shape           cells along each dimension, a tuple
Cells are at least as wide as the reach of the sums in space, so all events that contribute to an event's sum
are in its cell or in the neighbouring cells.
"""

import portable as pk

from ..shared import first_not_below
from .excitation import excitation_group, own_parameters, REACH, terms_of
from .kernels import background_terms, mark_of, squared_distance

WIDTH = 32  # rows of a slice of short rows
LONG = 64  # a row with more pairs is summed by a team


@pk.function
def neighbour_cell(n_dims, number, cell, i, shape):
    """Return cell `number` of the 3^D cells around event i, or -1 outside the grid."""
    k = 0
    inside = True
    for c in range(n_dims):
        along = cell[c, i] + number % 3 - 1
        number = number // 3
        inside = inside and along >= 0 and along < shape[c]
        k = k * shape[c] + along
    return k if inside else -1


@pk.kernel
def number_cells(i, n_dims, x, low, wide, shape, numbers):
    """Write the number of the cell that contains event i. 8 bytes per dimension, and 4."""
    k = 0
    for c in range(n_dims):
        k = k * shape[c] + min(int((x[c, i] - low[c]) // wide[c]), shape[c] - 1)
    numbers[i] = k


@pk.kernel
def put_into_cells(place, n_dims, order, numbers, shape, x, t, sorted_x, sorted_t, cell, sorted_numbers):
    """Copy the event at position `place` of the order by cells to that position. 24 bytes per dimension,
    and 32."""
    i = order[place]
    for c in range(x.shape[0]):
        sorted_x[c, place] = x[c, i]
    sorted_t[place] = t[i]
    k = numbers[i]
    sorted_numbers[place] = k
    for back in range(n_dims):
        c = n_dims - 1 - back
        cell[c, place] = k % shape[c]
        k = k // shape[c]


@pk.kernel
def find_cells(k, sorted_numbers, start):
    """Find the first event of cell k; past the last cell, the number of events. A binary search."""
    start[k] = first_not_below(sorted_numbers, 0, sorted_numbers.shape[0], k)


@pk.kernel
def rank_row(i, counts, keys):
    """Write the sort key of an event's row of pairs: short rows by their length, the longest first, then
    long ones, then rows without a pair. Return 1 if the row is short, 1 if it is long, and its number of
    pairs. 12 bytes."""
    n = counts[i]
    short = n > 0 and n <= LONG
    keys[i] = LONG - n if short else LONG if n > LONG else LONG + 1
    return 1 if short else 0, 1 if n > LONG else 0, n


@pk.kernel
def places_of(rank, n_slices, n_short, n_teams, rows, counts):
    """Return the number of places of a slice of WIDTH short rows, the longest of which comes first, or of
    a long row; 0 past the last row. 16 bytes."""
    if rank < n_slices:
        return counts[rows[rank * WIDTH]] * WIDTH
    return counts[rows[n_short + rank - n_slices]] if rank < n_teams else 0


@pk.kernel
def place_row(k, n_slices, n_short, rows, order, counts, begin, first, stride, length, event):
    """Write where the pairs of row k begin, their stride, their number, and their event. 56 bytes."""
    if k < n_slices * WIDTH:
        length[k] = 0
        event[k] = -1
        if k < n_short:
            row = rows[k]
            first[row] = begin[k // WIDTH] + k % WIDTH
            stride[row] = WIDTH
            length[k] = counts[row]
            event[k] = order[row]
    else:
        row = rows[n_short + k - n_slices * WIDTH]
        first[row] = begin[n_slices + k - n_slices * WIDTH]
        stride[row] = 1
        event[k] = order[row]


@pk.kernel
def background_by_cells(
    team, n_dims, n_mu, x, t, cell, start, shape, order, reach, self_term, a_x, a_t, background
):
    """Compute the sums of (1) over at least the events within `reach` hours in the event's cell and its
    neighbours; one team per event."""
    i = team.league_rank
    mu = pk.local(n_mu, pk.float64)
    terms = pk.local(3, x.dtype)
    delay = pk.local(1, x.dtype)  # differences are taken in float64, all else is in the dtype of x
    mu[:] = 0.0
    for number in range(3**n_dims):
        k = neighbour_cell(n_dims, number, cell, i, shape)
        if k >= 0:
            first = first_not_below(t, start[k], start[k + 1], t[i] - reach)
            last = first_not_below(t, first, start[k + 1], t[i] + reach)
            for j in team.thread_range(first, last):
                delay[0] = t[i] - t[j]
                background_terms(squared_distance(n_dims, False, x, i, x, j), delay[0], a_x, a_t, terms)
                for row in range(n_mu):
                    mu[row] += pk.float64(pk.where(j == i, 0.0, terms[row]))
    for row in range(n_mu):
        total = team.reduce(mu[row])
        if team.single():
            background[row, order[i]] = total + (self_term if row == 0 else 0.0)


@pk.kernel
def list_pairs(
    i,
    g,
    n_dims,
    fill,
    x,
    t,
    cell,
    start,
    shape,
    reach,
    cut,
    p,
    counts,
    first,
    stride,
    r2_of,
    dt_of,
    mark_at,
    earlier,
):
    """Count the earlier events whose exponent does not exceed `cut`; if `fill` > 0, write these pairs.

    With fill = 2 also write the position, in the order of cells, of the earlier event.
    """
    n_pairs = 0
    for number in range(3**n_dims):
        k = neighbour_cell(n_dims, number, cell, i, shape)
        begin = start[max(k, 0)]
        j = first_not_below(t, begin, start[k + 1] if k >= 0 else begin, t[i]) - 1
        while j >= begin and t[i] - t[j] <= reach:
            r2 = squared_distance(n_dims, False, x, i, x, j)
            dt = t[i] - t[j]
            mark = mark_of(g.marked, n_dims, x, j)
            if g.exponent(r2, dt, mark, p) <= cut:
                if fill > 0:
                    place = first[i] + n_pairs * stride[i]
                    r2_of[place] = r2
                    dt_of[place] = dt
                    if g.marked:
                        mark_at[place] = mark
                    if fill == 2:
                        earlier[place] = j
                n_pairs += 1
            j -= 1
    if fill == 0:
        counts[i] = n_pairs


@pk.function
def add_pair(g, n_xi, place, counts, pairs, p, terms, xi):
    """Add the moments of the pair at a place to xi, if it counts."""
    mark = pairs[3][place] if g.marked else 0.0
    terms_of(g, n_xi, pairs[1][place], pairs[2][place], mark, p, terms)
    for k in range(n_xi):
        xi[k] += pk.where(counts, pk.float64(terms[k]), 0.0)


@pk.function
def row_sums(team, g, rank, n_xi, pairs, p, excitation):
    """Compute the sums of (2) over listed pairs: a rank below n_slices takes a slice of WIDTH short rows,
    one row per member; any other rank takes one long row. `pairs` are those of `cells.PairList.args`."""
    n_slices, r2_of, dt_of, mark_at, begin, length, event = pairs
    xi = pk.local(n_xi, pk.float64)
    terms = pk.local(1 + g.n_own, r2_of.dtype)
    if rank < n_slices:
        width = (begin[rank + 1] - begin[rank]) // WIDTH
        for r in team.thread_range(pk.static(WIDTH)):
            row = rank * WIDTH + r
            xi[:] = 0.0
            for e in range(width):
                add_pair(g, n_xi, begin[rank] + e * WIDTH + r, e < length[row], pairs, p, terms, xi)
            if length[row] > 0:
                for k in range(n_xi):
                    excitation[k, event[row]] = xi[k]
    else:
        xi[:] = 0.0
        for place in team.thread_range(begin[rank], begin[rank + 1]):
            add_pair(g, n_xi, place, True, pairs, p, terms, xi)
        for k in range(n_xi):
            total = team.reduce(xi[k])
            if team.single():
                excitation[k, event[n_slices * (WIDTH - 1) + rank]] = total


@pk.kernel
def listed_sums(team, g, n_xi, pairs, p, excitation):
    """Compute the sums of (2) over a list of pairs; 7 operations, an exponential and 16 bytes per pair."""
    row_sums(team, g, team.league_rank, n_xi, pairs, p, excitation)


@pk.kernel
def excitations_of_several(team, g, listed, n_teams, source, n_xi, rows, excitation):
    """Compute `listed_sums`, or `excitation_sums`, for several parameter sets, in float64: one team for each
    row of `rows` (`row_of_params`) and each team of these; excitation[k], shape (n_xi, n_events), receives
    the sums of row k."""
    which, own = team.league_rank // n_teams, team.league_rank % n_teams
    p = pk.local(g.n_own, pk.float64)
    own_parameters(g, rows, which, p)
    if listed:
        row_sums(team, g, own, n_xi, source, p, excitation[which])
    else:
        excitation_group(team, g, own, source, n_xi, rows[which, REACH], p, excitation[which])
