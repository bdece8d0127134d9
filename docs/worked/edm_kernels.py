"""Nearest neighbours, lookups and cross maps of several sizes and dimensions, each kernel against its roof:
what kEDM's Figures 6 to 9 show, rooflines of the search and of the lookup and their share of the time.

    python -m portable.roofline report --out edm.html docs/worked/edm_kernels.py [space] [steps] [series]

K. Takahashi et al.: kEDM, a performance-portable implementation of empirical dynamic modeling using Kokkos.
PEARC 2021.
"""

import argparse

import numpy as np

import portable as pk
from portable import roofline
from portable.models import edm

DIMENSIONS = (1, 5, 10, 20)
REPEATS = 3

if __name__ == "__main__":
    parser = argparse.ArgumentParser(usage="edm_kernels.py [space] [steps] [series]")
    parser.add_argument("space", nargs="?", default=str(pk.default_space()))
    parser.add_argument("steps", nargs="?", type=int, default=10_000)
    parser.add_argument("series", nargs="?", type=int, default=10)
    space, steps, series = vars(parser.parse_args()).values()
    random = np.random.default_rng(1931)
    for n in (steps // 10, steps):
        x, y = random.random((2, n), np.float32)
        for E in DIMENSIONS:
            with roofline.region(f"E = {E}, L = {n:,}"):
                for _ in range(REPEATS):
                    edm.simplex(x, E, target=y, dtype="float32", space=space)
    data = random.random((steps // 10, series), np.float32)
    dims = random.integers(1, min(DIMENSIONS[-1], steps // 40) + 1, series)
    with roofline.region(f"cross map, {series} series, L = {len(data):,}"):
        for _ in range(REPEATS):
            edm.cross_map(data, dims, space=space)
    print(f"edm_kernels on {space}: E = {', '.join(map(str, DIMENSIONS))}, L up to {steps:,}")
