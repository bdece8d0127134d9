"""c[i, j] = fma(a[i, k], b[k, j], c[i, j]) in ascending k, for a tile c that is divided among a team's
members.

A tile is cut in atoms: on a GPU 16 x 8, of which a warp holds one as the tensor cores do, or 8 x 16, of which
a thread holds four neighbours; elsewhere a row of lanes. A warp's part is `down` x `right` atoms, its
neighbour's lies at the right of it; `height` and `width` are the whole. `own` are a member's elements, atom
after atom. b is given turned: k is the last index of both factors.
"""

from ...core.language.kernel import function, kernel
from ...core.language.words import FILES, float64, fma, local, static, where

FILES.append(__file__)


@function
def place_of_warps(team, tile, e):
    """Row and column of a member's element e."""
    atom, near = e // 4, 32 * tile.down // tile.height
    column = (team.rank // 32 * tile.right + atom % tile.right) * 4 + team.rank % 4
    return (atom // tile.right * 4 + e % 4) // near * 8 + team.rank % 32 // 4, column * near + e % near


@function
def place_of_lanes(team, tile, e):
    return e // tile.right, e % tile.right * team.size + team.rank


@function
def element_at(x, i, most, k):
    """Return an element of row i, of `most`, or of the last row."""
    return x[i if x.shape[0] >= most else min(i, x.shape[0] - 1), k]


@function
def warps(team, own, a, b):
    """Four k at a time, so that a load takes four neighbours of a row."""
    k = 0
    while k < a.shape[1]:
        for e, i, j in team.elements(own):
            for u in range(static(4)):
                if k + u < a.shape[1]:
                    own[e] = fma(
                        element_at(a, i, own.tile.height, k + u),
                        element_at(b, j, own.tile.width, k + u),
                        own[e],
                    )
        k += 4


@function
def tensor(team, own, a, b):
    """By the tensor cores, four k at a time."""
    t = team.rank % 4
    column = team.rank % 32 // 4 - 2 * t
    for k in range(0, a.shape[1], 4):
        for e, i, j in team.elements(own):
            if e % 4 == 0:
                own[e], own[e + 1], own[e + 2], own[e + 3] = team.mma(
                    own[e],
                    own[e + 1],
                    own[e + 2],
                    own[e + 3],
                    padded(a, i, own.tile.height, k, t, -0.0),
                    padded(a, i + 8, own.tile.height, k, t, -0.0),
                    padded(b, j + column, own.tile.width, k, t, 0.0),
                )


@function
def padded(x, i, most, k, t, zero):
    """Return element k + t of a row, t below 4. Beyond the last one the product is -0.0 times 0.0, which
    changes no sum.
    """
    n = x.shape[1]
    return (
        where(k + t < n, element_at(x, i, most, min(k + t, n - 1)), zero)
        if k + 4 > n
        else element_at(x, i, most, k + t)
    )


@function
def lanes(team, own, a, b):
    """Multiply by blocks of rows and packs, which are kept in registers."""
    tile = own.tile
    rows, packs = tile.rows_at_once, tile.packs_at_once
    total, many = local((rows, packs), own.dtype), tile.down // rows
    for block in range(tile.right // packs * many):
        i, j = block % many * rows, block // many * packs
        for r in range(static(rows)):
            for p in range(static(packs)):
                total[r, p] = own[(i + r) * tile.right + j + p]
        add_block(team, tile, a, b, i, j * team.size + team.rank, total)
        for r in range(static(rows)):
            for p in range(static(packs)):
                own[(i + r) * tile.right + j + p] = total[r, p]


@function
def add_block(team, tile, a, b, i, j, total):
    for k in range(a.shape[1]):
        for r in range(static(total.shape[0])):
            for p in range(static(total.shape[1])):
                total[r, p] = fma(
                    element_at(a, i + r, tile.height, k),
                    element_at(b, j + p * team.size, tile.width, k),
                    total[r, p],
                )


# ---- whole tiles
@function
def clear(team, own):
    for e, i, j in team.elements(own):
        own[e] = 0.0


@function
def product_into(team, c, a, b):
    own = team.tile(c.shape, c.dtype)
    for e, i, j in team.elements(own):
        if i < c.shape[0] and j < c.shape[1]:
            own[e] = c[i, j]
    team.product(own, a, b)
    for e, i, j in team.elements(own):
        if i < c.shape[0] and j < c.shape[1]:
            c[i, j] = own[e]


# ---- test of tensor cores: True if they multiply in order
@kernel
def in_order(team, same):
    """Count the elements of a tile, 16 x 8 by 64, that equal the results of a chain of fma."""
    a, b = team.scratch((16, 64), float64), team.scratch((64, 16), float64)
    for e in team.thread_range(1024):
        a[e // 64, e % 64] = sample(e)
        b[e // 16, e % 16] = sample(-e)
    team.barrier()
    own, equal = team.tile((16, 8), float64), 0
    team.product(own, a, b[:, :8])
    for e, i, j in team.elements(own):
        if j < 8:
            total = 0.0
            for k in range(64):
                total = fma(a[i, k], b[k, j], total)
            equal += total == own[e]
    equal = team.reduce(equal)
    if team.single():
        same[0] = equal


@function
def sample(n):
    """Return a whole number of 53 digits, which is a float64."""
    return n * 0x9E3779B97F4A7 % 2**53 - 2**52
