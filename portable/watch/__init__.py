"""Room of those parts that watch kernels: the checked space, debug builds, counts."""
