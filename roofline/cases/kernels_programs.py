"""Rows of `compare kernels` that are the inner loops of typical programs, written in the simplest way."""

import math

import portable as pk
from portable.roofline.cases.kernels_rows import row

BODIES = 128  # bodies of a tile
# the lattice of nine velocities, and its weights
EX, EY = (0, 1, 0, -1, 0, 1, -1, -1, 1), (0, 0, 1, 0, -1, 1, 1, -1, -1)
WEIGHTS = (4 / 9, *[1 / 9] * 4, *[1 / 36] * 4)


@row("a0//32*(a1//32)", "t,t !t,t", "team 256")
def transpose(team, a, out):
    tile = team.scratch((32, 33), a.dtype)
    across = a.shape[1] // 32
    r0, c0 = team.league_rank // across * 32, team.league_rank % across * 32
    for e in team.thread_range(1024):
        tile[e // 32, e % 32] = a[r0 + e // 32, c0 + e % 32]
    team.barrier()
    for e in team.thread_range(1024):
        out[c0 + e // 32, r0 + e % 32] = tile[e % 32, e // 32]


@row("y0", "start column value v !v", "team 32")
def spmv(team, start, column, value, x, y):
    i, s = team.league_rank, 0.0
    for k in team.thread_range(start[i], start[i + 1]):
        s += value[k] * x[column[k]]
    s = team.reduce(s)
    if team.single():
        y[i] = s


@row("a0", "r,1000 !r,1000", "team")
def softmax(team, a, out):
    i, top, total = team.league_rank, -math.inf, 0.0
    for j in team.thread_range(a.shape[1]):
        top = max(top, a[i, j])
    top = team.reduce(top, pk.Max)
    for j in team.thread_range(a.shape[1]):
        out[i, j] = math.exp(a[i, j] - top)
        total += out[i, j]
    total = team.reduce(total)
    for j in team.thread_range(a.shape[1]):
        out[i, j] /= total


@row("f1 f2", "1.2 9,m,m !9,m,m")
def lbm(y, x, omega, f, out):
    g = pk.local(9, f.dtype)
    rho, ux, uy = 0.0, 0.0, 0.0
    for q in range(9):
        g[q] = f[q, (y - EY[q] + f.shape[1]) % f.shape[1], (x - EX[q] + f.shape[2]) % f.shape[2]]
        rho += g[q]
        ux += EX[q] * g[q]
        uy += EY[q] * g[q]
    ux /= rho
    uy /= rho
    for q in range(9):
        eu = EX[q] * ux + EY[q] * uy
        even = WEIGHTS[q] * rho * (1.0 + 3.0 * eu + 4.5 * eu * eu - 1.5 * (ux * ux + uy * uy))
        out[q, y, x] = g[q] + omega * (even - g[q])


@row("s0", "0.02 0.3 n n n !n !n")
def black_scholes(i, rate, v, s, x, t, call, put):
    d1 = (math.log(s[i] / x[i]) + (rate + 0.5 * v * v) * t[i]) / (v * math.sqrt(t[i]))
    d2 = d1 - v * math.sqrt(t[i])
    c1 = 0.5 * (1.0 + math.erf(d1 * 0.70710678))
    c2 = 0.5 * (1.0 + math.erf(d2 * 0.70710678))
    paid = x[i] * math.exp(-rate * t[i])
    call[i] = s[i] * c1 - paid * c2
    put[i] = paid * (1.0 - c2) - s[i] * (1.0 - c1)


@row("a2", "spd !spd")
def cholesky_8(i, a, out):
    low = pk.local((8, 8), a.dtype)
    for r in range(8):
        for c in range(r + 1):
            s = a[r, c, i]
            for k in range(c):
                s -= low[r, k] * low[c, k]
            low[r, c] = math.sqrt(s) if r == c else s / low[c, c]
            out[r, c, i] = low[r, c]


@row("x0", "b b b b !b !b !b")
def nbody(i, x, y, z, m, ax, ay, az):
    fx, fy, fz = 0.0, 0.0, 0.0
    for j in range(x.shape[0]):
        dx, dy, dz = x[j] - x[i], y[j] - y[i], z[j] - z[i]
        by = pk.rsqrt(dx * dx + dy * dy + dz * dz + 0.001)
        w = m[j] * by * by * by
        fx += w * dx
        fy += w * dy
        fz += w * dz
    ax[i] = fx
    ay[i] = fy
    az[i] = fz


@row("x0//128", "b b b b !b !b !b", "team 128")
def nbody_tiled(team, x, y, z, m, ax, ay, az):
    tile = team.scratch((4, BODIES), x.dtype)
    first = team.league_rank * BODIES
    own = BODIES // team.size
    sums = pk.local((own, 3), x.dtype)
    for s in range(own):
        for k in range(3):
            sums[s, k] = 0.0
    for j0 in range(0, x.shape[0], BODIES):
        for j in team.thread_range(BODIES):
            tile[0, j] = x[j0 + j]
            tile[1, j] = y[j0 + j]
            tile[2, j] = z[j0 + j]
            tile[3, j] = m[j0 + j]
        team.barrier()
        for s in range(own):
            i = first + s * team.size + team.rank
            for j in range(BODIES):
                dx, dy, dz = tile[0, j] - x[i], tile[1, j] - y[i], tile[2, j] - z[i]
                by = pk.rsqrt(dx * dx + dy * dy + dz * dz + 0.001)
                w = tile[3, j] * by * by * by
                sums[s, 0] += w * dx
                sums[s, 1] += w * dy
                sums[s, 2] += w * dz
        team.barrier()
    for s in range(own):
        i = first + s * team.size + team.rank
        ax[i] = sums[s, 0]
        ay[i] = sums[s, 1]
        az[i] = sums[s, 2]


@row("a0 a1", "u1:m,m !u1:m,m", dtypes="int32")
def life(i, j, a, out):
    rows, columns = a.shape[0], a.shape[1]
    n = 0
    for di in (-1, 0, 1):
        for dj in (-1, 0, 1):
            if di != 0 or dj != 0:
                n += int(a[(i + di + rows) % rows, (j + dj + columns) % columns])
    out[i, j] = 1 if n == 3 or (n == 2 and a[i, j] == 1) else 0


@row("x0", "place n !n")
def scatter(i, place, x, out):
    pk.atomic_add(out, place[i], x[i])


@row("out0", "start column v v !v")
def pagerank(i, start, column, rank, degree, out):
    s = 0.0
    for k in range(start[i], start[i + 1]):
        s += rank[column[k]] / degree[column[k]]
    out[i] = 0.15 + 0.85 * s


@row("node0", "nodes 4,4 n//4 n//4 !n//4")
def fem(i, node, k, scale, u, out):
    for p in range(4):
        s = 0.0
        for q in range(4):
            s += k[p, q] * u[node[i, q]]
        pk.atomic_add(out, node[i, p], scale[i] * s)


@row("max(1,step+3-h1):min(step+2,h0)", "0 i4:s i4:s !i4:s+1,s+1", dtypes="int32", steps="h0+h1-3")
def smith_waterman(i, step, p, q, h):
    j = step + 2 - i
    s = 2 if p[i - 1] == q[j - 1] else -1
    h[i, j] = max(0, h[i - 1, j - 1] + s, h[i - 1, j] - 1, h[i, j - 1] - 1)


@row("image0", "image table !image", dtypes="int32")
def equalise(i, image, table, out):
    out[i] = int((table[image[i]] - table[0]) * 255.0 / (table[255] - table[0]) + 0.5)
