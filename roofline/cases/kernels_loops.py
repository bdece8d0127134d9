"""Rows of `compare kernels` of the kinds that RAJAPerf collects, written directly from published formulas:
streams, loops of hydrodynamics, dense matrices, stencils."""

import math

import portable as pk
from portable.roofline.cases.kernels_rows import row

TILE = 16  # edge of a product's tiles


@row("a0", "n !n")
def copy(i, a, c):
    c[i] = a[i]


@row("a0", "0.4 n n !n")
def triad(i, s, b, c, a):
    a[i] = b[i] + s * c[i]


@row("a0", "n n", "sum")
def dot(i, a, b):
    return a[i] * b[i]


@row("x0", "0.0001 n !n")
def daxpy(i, a, x, y):
    y[i] += a * x[i]


@row("x0", "0.0001 n !n")
def daxpy_atomic(i, a, x, y):
    pk.atomic_add(y, i, a * x[i])


@row("a0", "n n n !n !n")
def if_quad(i, a, b, c, x1, x2):
    s = b[i] * b[i] - 4.0 * a[i] * c[i]
    if s >= 0.0:
        s = math.sqrt(s)
        x2[i] = (s - b[i]) / (2.0 * a[i])
        x1[i] = (-b[i] - s) / (2.0 * a[i])
    else:
        x1[i] = 0.0
        x2[i] = 0.0


@row("in10", "n n !n !n !n")
def init3(i, in1, in2, out1, out2, out3):
    v = -in1[i] - in2[i]
    out1[i] = v
    out2[i] = v
    out3[i] = v


@row("out0 out1 out2", "!c,c,c")
def nested_init(k, j, i, out):
    out[k, j, i] = 0.00000001 * i * j * k


@row("n", "2000000 0.0000005", "sum", "float64")
def pi_reduce(i, n, dx):
    x = (i + 0.5) * dx
    return dx / (1.0 + x * x)


@row("c0//16*(c1//16)", "g,g g,g !g,g", "team 256")
def mat_mat_shared(team, a, b, c):
    at, bt = team.scratch((TILE, TILE), a.dtype), team.scratch((TILE, TILE), a.dtype)
    sums = team.scratch((TILE, TILE), a.dtype)
    across = c.shape[1] // TILE
    r0, c0 = team.league_rank // across * TILE, team.league_rank % across * TILE
    for e in team.thread_range(TILE * TILE):
        sums[e // TILE, e % TILE] = 0.0
    for k0 in range(0, a.shape[1], TILE):
        for e in team.thread_range(TILE * TILE):
            at[e // TILE, e % TILE] = a[r0 + e // TILE, k0 + e % TILE]
            bt[e // TILE, e % TILE] = b[k0 + e // TILE, c0 + e % TILE]
        team.barrier()
        for e in team.thread_range(TILE * TILE):
            for k in range(TILE):
                sums[e // TILE, e % TILE] += at[e // TILE, k] * bt[k, e % TILE]
        team.barrier()
    for e in team.thread_range(TILE * TILE):
        c[r0 + e // TILE, c0 + e % TILE] = sums[e // TILE, e % TILE]


@row("y0", "0.3 0.2 0.1 n+6 n n !n")
def eos(i, q, r, t, u, y, z, x):
    x[i] = (
        u[i]
        + r * (z[i] + r * y[i])
        + t * (u[i + 3] + r * (u[i + 2] + r * u[i + 1]) + t * (u[i + 6] + q * (u[i + 5] + q * u[i + 4])))
    )


@row("x0", "0.5 0.3 0.2 n n+11 !n")
def hydro_1d(i, q, r, t, y, z, x):
    x[i] = q + y[i] * (r * z[i + 10] + t * z[i + 11])


@row("x0", "n n n !n !n")
def planckian(i, u, v, x, y, w):
    y[i] = u[i] / v[i]
    w[i] = x[i] / (math.exp(y[i]) - 1.0)


@row("c0 c1", "0.5 0.3 g,g g,g !g,g")
def gemm(i, j, alpha, beta, a, b, c):
    s = 0.0
    for k in range(a.shape[1]):
        s += a[i, k] * b[k, j]
    c[i, j] = beta * c[i, j] + alpha * s


@row("a0", "m,m m m !m !m")
def mvt(i, a, x, y, p, q):
    s, t = 0.0, 0.0
    for j in range(a.shape[1]):
        s += a[i, j] * x[j]
    for j in range(a.shape[1]):
        t += a[j, i] * y[j]
    p[i] = s
    q[i] = t


@row("1:a0-1 1:a1-1 1:a2-1", "c,c,c !c,c,c")
def heat_3d(i, j, k, a, out):
    out[i, j, k] = (
        0.125 * (a[i + 1, j, k] - 2.0 * a[i, j, k] + a[i - 1, j, k])
        + 0.125 * (a[i, j + 1, k] - 2.0 * a[i, j, k] + a[i, j - 1, k])
        + 0.125 * (a[i, j, k + 1] - 2.0 * a[i, j, k] + a[i, j, k - 1])
        + a[i, j, k]
    )


@row("1:a0-1 1:a1-1", "m,m !m,m")
def jacobi_2d(i, j, a, b):
    b[i, j] = 0.2 * (a[i, j] + a[i, j - 1] + a[i, j + 1] + a[i + 1, j] + a[i - 1, j])


@row("hz0-1 hz1-1", "m,m m,m !m,m")
def fdtd_2d(i, j, ex, ey, hz):
    hz[i, j] -= 0.7 * (ex[i, j + 1] - ex[i, j] + ey[i + 1, j] - ey[i, j])


@row("path0 path1", "0 !w,w", steps="path0")
def floyd_warshall(i, j, step, path):
    path[i, j] = min(path[i, j], path[i, step] + path[step, j])


@pk.function
def along(x, i, j):
    """Return the mean difference of a zone's corners along a row."""
    return 0.5 * (x[i, j + 1] + x[i + 1, j + 1] - x[i, j] - x[i + 1, j])


@pk.function
def across(x, i, j):
    """Return the mean difference of a zone's corners along a column."""
    return 0.5 * (x[i + 1, j] + x[i + 1, j + 1] - x[i, j] - x[i, j + 1])


@row("div0-1 div1-1", "m,m m,m m,m m,m !m,m")
def del_dot_vec(i, j, x, y, u, v, div):
    xi, xj, yi, yj = along(x, i, j), across(x, i, j), along(y, i, j), across(y, i, j)
    fi, fj, gi, gj = along(u, i, j), across(u, i, j), along(v, i, j), across(v, i, j)
    div[i, j] = (fi * yj - fj * yi - gi * xj + gj * xi) / (xi * yj - xj * yi + 3.0)


@row("out0", ":16 n+15 !n")
def fir(i, taps, signal, out):
    s = 0.0
    for j in range(16):
        s += taps[j] * signal[i + j]
    out[i] = s


@row("phi0 phi1 phi2", "25,64 z,32,64 !z,32,25")
def ltimes(z, g, m, ell, psi, phi):
    s = 0.0
    for d in range(ell.shape[1]):
        s += ell[m, d] * psi[z, g, d]
    phi[z, g, m] += s


@pk.function
def edge(x, i, j, k, di, dj, dk):
    """Return the edge from one corner to another."""
    return x[i + di, j + dj, k + dk] - x[i, j, k]


@row("vol0-1 vol1-1 vol2-1", "c,c,c c,c,c c,c,c !c,c,c")
def vol3d(i, j, k, x, y, z, vol):
    xa, ya, za = edge(x, i, j, k, 1, 1, 1), edge(y, i, j, k, 1, 1, 1), edge(z, i, j, k, 1, 1, 1)
    s = 0.0
    for a, b, c, d, e, f in ((0, 0, 1, 1, 0, 1), (0, 1, 0, 0, 1, 1), (1, 0, 0, 1, 1, 0)):
        xb, yb, zb = edge(x, i, j, k, a, b, c), edge(y, i, j, k, a, b, c), edge(z, i, j, k, a, b, c)
        xc, yc, zc = edge(x, i, j, k, d, e, f), edge(y, i, j, k, d, e, f), edge(z, i, j, k, d, e, f)
        s += xa * (yb * zc - zb * yc) + ya * (zb * xc - xb * zc) + za * (xb * yc - yb * xc)
    vol[i, j, k] = s / 12.0


@row("vol0 vol1 vol2", "c,c,c !c+1,c+1,c+1")
def nodal_sum(i, j, k, vol, x):
    v = 0.125 * vol[i, j, k]
    for di in range(2):
        for dj in range(2):
            for dk in range(2):
                pk.atomic_add(x, (i + di, j + dj, k + dk), v)


@row("x0", "n", "sum")
def reduce_sum(i, x):
    return x[i]


@row("bins0", "level !i4:256", dtypes="int32")
def histogram(i, bins, counts):
    pk.atomic_add(counts, bins[i], 1)
