"""The micro-kernels in C, compiled by gcc for this processor, with OpenMP where there is more than one
thread.

Chains of fused multiply-adds are vectors by type (gcc's own vector extension), eight float64 to a vector
where the processor has such registers, else four: what an author of a peak benchmark writes.
"""

import ctypes
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from portable.roofline.contract import Contender
from portable.roofline.digest import digest

if shutil.which("gcc") is None:
    raise ImportError("gcc is not installed")

SOURCE = r"""
#ifdef __AVX512F__
#define BYTES 64
#else
#define BYTES 32
#endif

void copy(int threads, long n, const double *restrict b, double *restrict a) {
    #pragma omp parallel for num_threads(threads)
    for (long i = 0; i < n; ++i) a[i] = b[i];
}

void triad(int threads, long n, double s, const double *restrict b, const double *restrict c,
    double *restrict a) {
    #pragma omp parallel for num_threads(threads)
    for (long i = 0; i < n; ++i) a[i] = b[i] + s * c[i];
}

void triad_again(int threads, long rows, long n, long step, long trips, double s, const double *b_,
    const double *c_,
                 double *a_) {
    #pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (long row = 0; row < rows; ++row) {
        const double *restrict b = b_ + row * step, *restrict c = c_ + row * step;
        double *restrict a = a_ + row * step;
        for (long trip = 0; trip < trips; ++trip) {
            for (long j = 0; j < n; ++j) a[j] = b[j] + s * c[j];
            __asm__ volatile("" ::: "memory");  // each trip is done
        }
    }
}

#define FMA(NAME, TYPE)                                                                               \
typedef TYPE NAME##_pack __attribute__((vector_size(BYTES)));                                         \
void NAME(int threads, long n, long trips, double b_, double c_, TYPE *restrict out) {                \
    const long lanes = BYTES / sizeof(TYPE);                                                          \
    const NAME##_pack b = (TYPE)b_ - (NAME##_pack){0}, c = (TYPE)c_ - (NAME##_pack){0};               \
    _Pragma("omp parallel for num_threads(threads)")                                                  \
    for (long i = 0; i < n; i += lanes) {                                                             \
        NAME##_pack x[CHAINS], start = *(NAME##_pack *)(out + i), total = {0};                        \
        _Pragma("GCC unroll 32") for (int k = 0; k < CHAINS; ++k) x[k] = start + (TYPE)k;             \
        for (long t = 0; t < trips; ++t)                                                              \
            _Pragma("GCC unroll 32") for (int k = 0; k < CHAINS; ++k) x[k] = x[k] * b + c;            \
        _Pragma("GCC unroll 32") for (int k = 0; k < CHAINS; ++k) total += x[k];                      \
        *(NAME##_pack *)(out + i) = total;                                                            \
    }                                                                                                 \
}
FMA(fma_float64, double)
FMA(fma_float32, float)
"""


@functools.cache
def compiled(text, *flags):
    """Return the shared object of a text in C; its folder goes with it, for what is loaded needs no file.

    Raises
    ------
    ImportError
        gcc refused the text.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "peaks.c"), Path(folder, "peaks.so")
        source.write_text(text, encoding="utf-8")
        flags = [*flags, "-fopenmp", "-shared", "-fPIC", str(source), "-o", str(made), "-lm"]
        done = subprocess.run(["gcc", *flags], capture_output=True, text=True, check=False)
        if done.returncode:
            raise ImportError(f"gcc refused the text: {(done.stderr.splitlines() or ['no message'])[:3]}")
        return ctypes.CDLL(str(made))


def contenders(name, chains, *inputs, threads):
    """One peer; `name` is "copy", "triad", "triad_again", "fma_float64" or "fma_float32"."""
    function = getattr(compiled(SOURCE, "-O3", "-march=native", f"-DCHAINS={chains}"), name)
    if name.startswith("fma"):
        call, result = _peak(function, threads, name.removeprefix("fma_"), *inputs)
    elif name == "triad_again":
        trips, scale, views = inputs
        step = views[0].strides[0] // views[0].dtype.itemsize
        call, result = _stream(function, threads, [*views[0].shape, step, trips], [scale], views)
    else:
        call, result = _stream(function, threads, [inputs[1][0].size], *inputs)
    return [
        Contender(
            f"C, gcc -O3 -march=native, {threads} thread{'s' if threads > 1 else ''}", call, result=result
        )
    ]


def _aligned(array):
    """A copy at an address that whole registers like."""
    room = np.zeros(array.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    made = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


def _stream(function, threads, sizes, scale, views):
    arrays = [np.asarray(view) for view in views]
    numbers = [ctypes.c_int(threads), *map(ctypes.c_long, sizes), *map(ctypes.c_double, scale)]
    call = functools.partial(function, *numbers, *(ctypes.c_void_p(a.ctypes.data) for a in arrays))

    def result():
        arrays[-1][...] = 0
        call()
        return digest(arrays[-1])

    return call, result


def _peak(function, threads, dtype, n, trips, b, c):
    out = _aligned(np.ones(n, dtype))
    call, _ = _stream(function, threads, [n, trips], [b, c], [out])

    def result():
        out[:] = 1
        call()
        return digest(out)

    return call, result
