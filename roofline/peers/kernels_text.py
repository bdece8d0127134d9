"""Anybody's kernels in C and CUDA C++: a body for one index, and the loops or the launch around it.

In a body the kernel's arguments have their names, `x0`, `x1`, ... are the extents of an array x, `x(r, c)` is
an element of one of two or three dimensions, `T` is the kernel's float, `idx` an index; ADD is an atomic
addition. What a kernel returns, to be summed, is `r`.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from portable.roofline.contract import Contender

C_TYPES = {
    "float64": "double",
    "float32": "float",
    "int32": "int",
    "int64": "long long",
    "uint8": "unsigned char",
}
BLOCK = 256
BLOCKS = {1: (BLOCK, 1, 1), 2: (32, 8, 1), 3: (32, 8, 1)}  # of threads, the last index first


@dataclass(frozen=True)
class Peer(Contender):
    """A contender whose `result` gives arrays.

    Parameters
    ----------
    source : str
        A hash of its text, since a file has the texts of many.
    """

    source: str = ""


@dataclass(frozen=True)
class Task:
    """One kernel on one input.

    Parameters
    ----------
    name : str
        A key of BODIES.
    kernel : portable.Kernel
        The text that users write.
    form : str
        "for", "sum", "team", or "team" and its size.
    bounds : tuple of (str, str)
        Where each index begins and ends, in terms of extents and of `step`.
    arguments : dict of str to ndarray or number
        By the kernel's names, in its order.
    written : tuple of str
    dtype : str
        Of T.
    steps : str
        How many launches there are, one for each value of the argument `step`; empty for one.
    """

    name: str
    kernel: Any
    form: str
    bounds: tuple
    arguments: dict
    written: tuple
    dtype: str
    steps: str = ""

    def number(self, text, step=0):
        """A bound's value."""
        known = {f"{name}{axis}": extent for name, axis, extent in self.extents()}
        known |= {name: value for name, value in self.arguments.items() if isinstance(value, int)}
        return int(eval(text, {"min": min, "max": max}, known | {"step": step}))

    def ranges(self, step=0):
        """(begin, end) of each index."""
        return [(self.number(a, step), self.number(b, step)) for a, b in self.bounds]

    def extents(self):
        """(name, axis, extent) of all arrays."""
        for name, value in self.arguments.items():
            for axis, extent in enumerate(np.shape(value)):
                yield name, axis, extent

    @property
    def indices(self):
        """The names of the indices; a team's place in its league is the first."""
        names = self.kernel.fn.__code__.co_varnames[: self.kernel.fn.__code__.co_argcount]
        return ["i"] if self.form.startswith("team") else list(names[: len(self.bounds)])

    @property
    def outputs(self):
        """What is written: arguments, or `total_`, the sum."""
        return self.written or ("total_",)

    def fresh(self):
        """The arguments, with copies of those that are written, and the sum's place where there is one."""
        sums = {"total_": np.zeros(1, self.dtype)} if self.form == "sum" else {}
        return {k: v.copy() if k in self.written else v for k, v in self.arguments.items()} | sums

    def contender(self, label, text, call, arrays, put, **options):
        """A peer with this text. Its `result` gives what one call writes, from the beginning, into arrays
        that `put(array, values)` fills."""

        def result():
            for name in self.outputs:
                put(arrays[name], self.arguments.get(name, np.zeros(1, self.dtype)))
            call()
            return [arrays[name] for name in self.outputs]

        source = hashlib.sha256(text.encode()).hexdigest()[:16]
        return Peer(label, call, result=result, source=source, **options)


def single(text, dtype, form=r"\g<0>f"):
    """A text whose literals are float32 where `dtype` is."""
    return text if dtype != "float32" else re.sub(r"\b\d+\.\d*(e-?\d+)?", form, text)


def _parameters(task, restrict):
    """The declarations of a function's parameters, and macros for elements of matrices."""
    found, macros = [], ""
    for name, value in task.fresh().items():
        if isinstance(value, np.ndarray):
            const = "" if name in task.outputs else "const "
            found.append(f"{const}{C_TYPES[str(value.dtype)]}* {restrict} {name}")
            found += [f"idx {name}{axis}" for axis in range(value.ndim)]
            if value.ndim == 2:
                macros += f"#define {name}(r_, c_) {name}[(r_) * {name}1 + (c_)]\n"
            if value.ndim == 3:
                macros += f"#define {name}(p_, r_, c_) {name}[((p_) * {name}1 + (r_)) * {name}2 + (c_)]\n"
        elif name != "step":
            found.append(f"{'idx' if isinstance(value, int) else 'T'} {name}")
    return found, macros


C = r"""#include <math.h>
#include <stdlib.h>
#include <tgmath.h>
typedef long idx;
#define LOOP(k, n) for (idx k = 0; k < n; ++k)
#define ADD(place, value) _Pragma("omp atomic") place += value
#define rsqrt(x) (1 / sqrt(x))
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define PARALLEL _Pragma("omp parallel for num_threads(threads)")
#define SIMD _Pragma("omp simd")
#define UNROLL _Pragma("GCC unroll 16")
"""


def c(task):
    """The text of a C function `run(threads, arguments ...)`."""
    body = C_BODIES.get(task.name) or BODIES[task.name]
    found, macros = _parameters(task, "restrict")
    plain = not re.search(r"\b(for|LOOP|while|ADD|__sync)", body)
    simd = plain and len(task.bounds) == 1
    pragma = f"omp parallel for{' simd' * simd} num_threads(threads)"
    pragma += " reduction(+:total)" * (task.form == "sum")
    loops = f"#pragma {pragma}\n"
    for axis, (name, (a, b)) in enumerate(zip(task.indices, task.bounds, strict=True)):
        loops += "SIMD\n" * (plain and axis > 0 and axis == len(task.bounds) - 1)
        loops += f"for (idx {name} = {a}; {name} < {b}; ++{name})\n"
    if body.startswith("WHOLE"):
        loops, body = "", body.removeprefix("WHOLE")
    elif task.form == "sum":
        loops, body = f"T total = 0;\n{loops}", f"{{ T r; {body} total += r; }} *total_ = total;"
    else:
        body = f"{{ {body} }}"
    if task.steps:
        loops = f"for (idx step = 0; step < {task.steps}; ++step) {{\n{loops}"
        body += "}"
    text = f"void run(int threads, {', '.join(found)}) {{\n{loops}{body}\n}}\n"
    return f"{C}#define T {C_TYPES[task.dtype]}\n{macros}{single(text, task.dtype)}"


CUDA = r"""typedef int idx;
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#define LOOP(k, n) for (idx k = 0; k < n; ++k)
#define ADD(place, value) atomicAdd(&(place), value)
#define UNROLL _Pragma("unroll")
__device__ T warp_sum(T v) {
    for (int k = 16; k; k /= 2) v += __shfl_xor_sync(~0u, v, k);
    return v;
}
__device__ T warp_max(T v) {
    for (int k = 16; k; k /= 2) v = max(v, __shfl_xor_sync(~0u, v, k));
    return v;
}
__device__ T block_sum(T v) {
    __shared__ T parts[32];
    v = warp_sum(v);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
    __syncthreads();
    v = warp_sum(threadIdx.x % 32 < blockDim.x / 32 ? parts[threadIdx.x % 32] : 0);
    __syncthreads();
    return v;
}
"""


def cuda(task):
    """The text of a CUDA kernel `run(begin and end of each index, arguments ..., step)`."""
    own = CUDA_BODIES.get(task.name)
    body = own[2] if own else BODIES[task.name]
    found, macros = _parameters(task, "__restrict__")
    ends = [f"idx {edge}{axis}" for axis in range(len(task.bounds)) for edge in ("begin", "end")]
    found = [*ends, *found, *["idx step"] * bool(task.steps)]
    if own:
        threads = own[1]
    else:
        block = BLOCKS[len(task.bounds)]
        threads = block[0] * block[1]
        names = list(zip("xyz", reversed(list(enumerate(task.indices))), strict=False))
        places = "".join(
            f"idx {n} = begin{k} + blockIdx.{d} * blockDim.{d} + threadIdx.{d};\n" for d, (k, n) in names
        )
        inside = " && ".join(f"{n} < end{k}" for _, (k, n) in names)
        if task.form == "sum":
            name = task.indices[0]
            body = (
                f"T total = 0;\n#pragma unroll 4\nfor (idx {name} = begin0 + blockIdx.x * {BLOCK} +"
                f" threadIdx.x; "
                f"{name} < end0; {name} += gridDim.x * {BLOCK}) {{ T r; {body} total += r; }}\n"
                "total = block_sum(total); if (threadIdx.x == 0) atomicAdd(total_, total);"
            )
        else:
            body = f"{places}if ({inside}) {{ {body} }}"
    head = f'extern "C" __global__ void __launch_bounds__({threads}) run({", ".join(found)})'
    text = f"{CUDA}{macros}{head} {{\n{body}\n}}\n"
    return f"#define T {C_TYPES[task.dtype]}\n{single(text, task.dtype)}"


def launch(task, step=0):
    """(grid, block) of a CUDA launch; a grid of None fills the device once."""
    own = CUDA_BODIES.get(task.name)
    if own:
        grid = own[0].split()
        return tuple(max(1, task.number(text, step)) for text in grid), (own[1], 1, 1)
    block = BLOCKS[len(task.bounds)]
    if task.form == "sum":
        return None, block
    sizes = [max(1, b - a) for a, b in reversed(task.ranges(step))]
    return tuple(-(-n // k) for n, k in zip(sizes, block, strict=False)), block


# the body in both languages, unless a table below has another
BODIES = {
    "copy": "c[i] = a[i];",
    "triad": "a[i] = b[i]+s*c[i];",
    "dot": "r = a[i]*b[i];",
    "daxpy": "y[i] += a*x[i];",
    "daxpy_atomic": "ADD(y[i], a*x[i]);",
    "if_quad": "T s = b[i]*b[i]-4.0*a[i]*c[i]; if (s>=0) { s = sqrt(s); x2[i] = (s-b[i])/(2.0*a[i]);"
    " x1[i] = (-b[i]-s)/(2.0*a[i]); } else { x1[i] = 0; x2[i] = 0; }",
    "init3": "out1[i] = out2[i] = out3[i] = -in1[i]-in2[i];",
    "nested_init": "out(k,j,i) = (T)0.00000001*i*j*k;",
    "pi_reduce": "const T x = (i+(T)0.5)*dx; r = dx/(1+x*x);",
    "eos": "x[i] = u[i]+r*(z[i]+r*y[i])+t*(u[i+3]+r*(u[i+2]+r*u[i+1]) + t*(u[i+6]+q*(u[i+5]+q*u[i+4])));",
    "hydro_1d": "x[i] = q+y[i]*(r*z[i+10]+t*z[i+11]);",
    "planckian": "y[i] = u[i]/v[i]; w[i] = x[i]/(exp(y[i])-1);",
    "gemm": "T s = 0; LOOP(k,a1) s += a(i,k)*b(k,j); c(i,j) = beta*c(i,j)+alpha*s;",
    "mvt": "T s = 0, t = 0; LOOP(j,a1) s += a(i,j)*x[j]; LOOP(j,a1) t += a(j,i)*y[j]; p[i] = s; q[i] = t;",
    "heat_3d": "out(i,j,k) = 0.125*(a(i+1,j,k)-2.0*a(i,j,k)+a(i-1,j,k))"
    " + 0.125*(a(i,j+1,k)-2.0*a(i,j,k)+a(i,j-1,k))"
    " + 0.125*(a(i,j,k+1)-2.0*a(i,j,k)+a(i,j,k-1))+a(i,j,k);",
    "jacobi_2d": "b(i,j) = 0.2*(a(i,j)+a(i,j-1)+a(i,j+1)+a(i+1,j)+a(i-1,j));",
    "fdtd_2d": "hz(i,j) -= 0.7*(ex(i,j+1)-ex(i,j)+ey(i+1,j)-ey(i,j));",
    "floyd_warshall": "path(i,j) = min(path(i,j), path(i,step)+path(step,j));",
    "del_dot_vec": "const T "
    + ", ".join(
        f"{d}i = 0.5*({x}(i,j+1)+{x}(i+1,j+1)-{x}(i,j)-{x}(i+1,j)),"
        f" {d}j = 0.5*({x}(i+1,j)+{x}(i+1,j+1)-{x}(i,j)-{x}(i,j+1))"
        for d, x in ("xx", "yy", "fu", "gv")
    )
    + "; div(i,j) = (fi*yj-fj*yi-gi*xj+gj*xi)/(xi*yj-xj*yi+3.0);",
    "fir": "T s = 0; LOOP(j,16) s += taps[j]*signal[i+j]; out[i] = s;",
    "ltimes": "T s = 0; LOOP(d,ell1) s += ell(m,d)*psi(z,g,d); phi(z,g,m) += s;",
    "vol3d": "const T xa = x(i+1,j+1,k+1)-x(i,j,k), ya = y(i+1,j+1,k+1)-y(i,j,k), za ="
    " z(i+1,j+1,k+1)-z(i,j,k);"
    " T s = 0; "
    + " ".join(
        f"{{ const T xb = x({p})-x(i,j,k), yb = y({p})-y(i,j,k), zb = z({p})-z(i,j,k), xc = x({q})-x({r}),"
        f" yc = y({q})-y({r}), zc = z({q})-z({r});"
        " s += xa*(yb*zc-zb*yc)+ya*(zb*xc-xb*zc)+za*(xb*yc-yb*xc); }"
        for p, q, r in (
            ("i,j,k+1", "i+1,j,k+1", "i,j,k"),
            ("i,j+1,k", "i,j+1,k+1", "i,j,k"),
            ("i+1,j,k", "i+1,j+1,k", "i,j,k"),
        )
    )
    + " vol(i,j,k) = s/12.0;",
    "nodal_sum": "const T v = 0.125*vol(i,j,k);"
    + "".join(f" ADD(x(i+{c >> 2},j+{c >> 1 & 1},k+{c & 1}), v);" for c in range(8)),
    "reduce_sum": "r = x[i];",
    "spmv": "T s = 0; for (idx k = start[i]; k<start[i+1]; ++k) s += value[k]*x[column[k]]; y[i] = s;",
    "softmax": "T top = a(i,0), sum = 0; for (idx j = 1; j<a1; ++j) top = max(top, a(i,j));"
    " LOOP(j,a1) sum += out(i,j) = exp(a(i,j)-top);"
    " const T by = 1/sum; LOOP(j,a1) out(i,j) *= by;",
    "lbm": "const int ex[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, ey[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1}; T"
    " g[9], rho = 0,"
    " ux = 0, uy = 0; UNROLL LOOP(q,9) { idx r = y-ey[q], c = x-ex[q];"
    " r = r<0?f1-1:r==f1?0:r; c = c<0?f2-1:c==f2?0:c; g[q] = f(q,r,c); rho += g[q];"
    " ux += ex[q]*g[q]; uy += ey[q]*g[q]; } ux /= rho; uy /= rho; const T uu = 1-1.5*(ux*ux+uy*uy);"
    " UNROLL LOOP(q,9) { const T eu = ex[q]*ux+ey[q]*uy,"
    " w = q==0?4.0/9.0:q<5?1.0/9.0:1.0/36.0;"
    " out(q,y,x) = g[q]+omega*(w*rho*(uu+3.0*eu+4.5*eu*eu)-g[q]); }",
    "black_scholes": "const T root = sqrt(t[i]), d1 = (log(s[i]/x[i])+(rate+0.5*v*v)*t[i])/(v*root),"
    " d2 = d1-v*root, c1 = 0.5*(1+erf(d1*0.70710678)), c2 = 0.5*(1+erf(d2*0.70710678)),"
    " paid = x[i]*exp(-rate*t[i]); call[i] = s[i]*c1-paid*c2; put[i] = paid*(1-c2)-s[i]*(1-c1);",
    "cholesky_8": "T l[8][8]; UNROLL LOOP(r,8) UNROLL LOOP(c,r+1) {"
    " T s = a(r,c,i); UNROLL LOOP(k,c) s -= l[r][k]*l[c][k];"
    " out(r,c,i) = l[r][c] = r==c?sqrt(s):s/l[c][c]; }",
    "nbody": "T fx = 0, fy = 0, fz = 0; LOOP(j,x0) { const T dx = x[j]-x[i], dy = y[j]-y[i],"
    " dz = z[j]-z[i], by = rsqrt(dx*dx+dy*dy+dz*dz+0.001), w = m[j]*by*by*by; fx += w*dx;"
    " fy += w*dy; fz += w*dz; } ax[i] = fx; ay[i] = fy; az[i] = fz;",
    "life": "const idx u = i?i-1:a0-1, d = i+1<a0?i+1:0, l = j?j-1:a1-1,"
    " r = j+1<a1?j+1:0; const int n = a(u,l)+a(u,j)+a(u,r)+a(i,l)+a(i,r)+a(d,l)+a(d,j)+a(d,r);"
    " out(i,j) = n==3||(n==2&&a(i,j));",
    "scatter": "ADD(out[place[i]], x[i]);",
    "pagerank": "T s = 0; for (idx k = start[i]; k<start[i+1]; ++k) s += rank[column[k]]/degree[column[k]];"
    " out[i] = 0.15+0.85*s;",
    "fem": "T x[4]; LOOP(p,4) x[p] = u[node(i,p)]; LOOP(p,4) { T s = 0;"
    " LOOP(q,4) s += k(p,q)*x[q]; ADD(out[node(i,p)], scale[i]*s); }",
    "smith_waterman": "const idx j = step+2-i; const int s = p[i-1]==q[j-1]?2:-1;"
    " h(i,j) = max(max(0, h(i-1,j-1)+s), max(h(i-1,j)-1, h(i,j-1)-1));",
    "equalise": "out[i] = (int)((table[image[i]]-table[0])*255.0/(table[255]-table[0])+0.5);",
}
# C where another order of loops is what its authors write
C_BODIES = {
    "transpose": 'WHOLE _Pragma("omp parallel for num_threads(threads) collapse(2)") for (idx r = 0; r<a0;'
    " r += 32)"
    " for (idx c = 0; c<a1; c += 32) for (idx i = r; i<r+32; ++i) SIMD for (idx j = c; j<c+32; ++j)"
    " out(j,i) = a(i,j);",
    "gemm": "WHOLE PARALLEL LOOP(i,c0) {"
    " LOOP(j,c1) c(i,j) *= beta; LOOP(k,a1) SIMD LOOP(j,c1)"
    " c(i,j) += alpha*a(i,k)*b(k,j); }",
    "mat_mat_shared": "WHOLE PARALLEL LOOP(i,c0) {"
    " LOOP(j,c1) c(i,j) = 0; LOOP(k,a1) SIMD LOOP(j,c1)"
    " c(i,j) += a(i,k)*b(k,j); }",
    "mvt": 'WHOLE _Pragma("omp parallel num_threads(threads)") { _Pragma("omp for") for (idx i = 0; i<a0;'
    " ++i) {"
    ' T s = 0; LOOP(j,a1) s += a(i,j)*x[j]; p[i] = s; } _Pragma("omp for schedule(static)")'
    " for (idx b = 0; b<a1; b += 64) { T t[64] = {0}; const idx n = min(64, a1-b); LOOP(j,a0)"
    " LOOP(i,n) t[i] += a(j,b+i)*y[j]; LOOP(i,n) q[b+i] = t[i]; } }",
    "histogram": 'WHOLE _Pragma("omp parallel for num_threads(threads) reduction(+:counts[:256])")'
    " LOOP(i,bins0) ++counts[bins[i]];",
    "nbody_tiled": f"WHOLE PARALLEL LOOP(i,x0) {{ {BODIES['nbody']} }}",
}

# blocks of a grid, threads of a block, and the kernel's own text
CUDA_BODIES = {
    "mat_mat_shared": (
        "c1//16 c0//16",
        256,
        """__shared__ T at[16][16], bt[16][16];
        const int r = threadIdx.x/16, k = threadIdx.x % 16, row = blockIdx.y*16+r, col = blockIdx.x*16+k;
        T s = 0;
        for (idx k0 = 0; k0<a1; k0 += 16) {
            at[r][k] = a(row,k0+k); bt[r][k] = b(k0+r,col); __syncthreads();
            UNROLL LOOP(m,16) s += at[r][m]*bt[m][k];
            __syncthreads(); }
        c(row,col) = s;""",
    ),
    "transpose": (
        "a1//32 a0//32",
        256,
        """__shared__ T tile[32][33];
        const int k = threadIdx.x % 32, r = threadIdx.x/32, r0 = blockIdx.y*32, c0 = blockIdx.x*32;
        UNROLL for (int j = r; j<32; j += 8) tile[j][k] = a(r0+j,c0+k);
        __syncthreads();
        UNROLL for (int j = r; j<32; j += 8) out(c0+j,r0+k) = tile[k][j];""",
    ),
    "spmv": (
        "(y0+7)//8",
        256,
        """const idx i = blockIdx.x*8+threadIdx.x/32; if (i>=y0) return; T s = 0;
        for (idx k = start[i]+threadIdx.x % 32; k<start[i+1]; k += 32) s += value[k]*x[column[k]];
        s = warp_sum(s); if (threadIdx.x % 32==0) y[i] = s;""",
    ),
    "softmax": (
        "a0",
        256,
        """__shared__ T parts[8]; const idx i = blockIdx.x; T kept[4], top = -INFINITY, sum = 0;
        UNROLL LOOP(k,4) { idx j = threadIdx.x+256*k; kept[k] = j<a1?a(i,j):-INFINITY;
            top = max(top, kept[k]); }
        top = warp_max(top); if (threadIdx.x % 32==0) parts[threadIdx.x/32] = top; __syncthreads();
        LOOP(k,8) top = max(top, parts[k]);
        UNROLL LOOP(k,4) sum += kept[k] = exp(kept[k]-top);
        sum = 1/block_sum(sum);
        UNROLL LOOP(k,4) { idx j = threadIdx.x+256*k; if (j<a1) out(i,j) = kept[k]*sum; }""",
    ),
    "nbody_tiled": (
        "(x0+127)//128",
        128,
        """__shared__ T tile[4][128]; const int t = threadIdx.x;
        const idx i = blockIdx.x*128+t; const T xi = x[i], yi = y[i], zi = z[i]; T fx = 0, fy = 0, fz = 0;
        for (idx j = t; j<x0; j += 128) {
            tile[0][t] = x[j]; tile[1][t] = y[j]; tile[2][t] = z[j]; tile[3][t] = m[j]; __syncthreads();
            _Pragma("unroll 16") LOOP(k,128) {
                const T dx = tile[0][k]-xi, dy = tile[1][k]-yi, dz = tile[2][k]-zi,
                    by = rsqrt(dx*dx+dy*dy+dz*dz+0.001), w = tile[3][k]*by*by*by;
                fx += w*dx; fy += w*dy; fz += w*dz; }
            __syncthreads(); }
        ax[i] = fx; ay[i] = fy; az[i] = fz;""",
    ),
    "histogram": (
        "min(2048,(bins0+1023)//1024)",
        256,
        """__shared__ int own[256]; own[threadIdx.x] = 0; __syncthreads();
        for (idx i = blockIdx.x*256+threadIdx.x; i<bins0; i += gridDim.x*256) atomicAdd(&own[bins[i]], 1);
        __syncthreads(); atomicAdd(&counts[threadIdx.x], own[threadIdx.x]);""",
    ),
}
