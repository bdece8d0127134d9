"""The rooms: which may import which, and how large each may be, for test_rooms.py and test_sizes.py."""

# # a package, and the packages that it imports
ARROWS = dict(
    row.split(": ")
    for row in """
core: errors
core/arrays: core core/language core/places errors
core/compiler/reading: core core/language core/texts errors
core/compiler/writing: core core/compiler/reading core/language core/places core/texts errors
core/language: core core/places errors
core/launch: core core/arrays core/language core/places errors
core/machines: core core/arrays core/places errors
core/machines/cpu: core core/compiler/reading core/compiler/writing core/language core/machines
    core/places errors
core/machines/cuda: core core/compiler/reading core/compiler/writing core/language core/machines
    core/places errors
core/places: core errors
core/texts: core/language
derivatives: core core/arrays core/compiler/reading core/language core/launch core/places errors library
    library/texts
face: core core/arrays core/language core/launch core/machines core/machines/cpu core/machines/cuda
    core/places derivatives errors library library/texts numba watch/checked watch watch/counts
library: core core/arrays core/compiler/reading core/language core/launch core/places errors
    library/texts
library/texts: core/language core/texts
models/edm: errors face models/shared
models/hawkes: face models/shared
models/mixture: errors face models/mixture/cytometry models/shared
models/mixture/cytometry: errors models/mixture models/shared
models/resampling: errors face models/shared
models/shared: errors face
models/tmap: face models/shared
numba: core core/arrays core/compiler/reading core/compiler/writing core/language core/launch
    core/machines/cpu core/machines/cuda core/places errors
roofline: errors face roofline/cases roofline/peers roofline/scoreboard
roofline/cases: errors face models/edm models/hawkes models/mixture models/mixture/cytometry models/resampling
    models/shared models/tmap roofline roofline/peers roofline/scoreboard roofline/truth
roofline/peers: face roofline roofline/cases
roofline/scoreboard: errors face roofline roofline/cases
roofline/truth: errors face roofline roofline/cases
watch: core core/compiler/reading core/language errors
watch/checked: core core/arrays core/compiler/reading core/compiler/writing core/language core/launch
    core/machines core/places errors watch
watch/counts: core core/compiler/reading core/compiler/writing core/language core/launch core/machines/cpu
    core/machines/cuda errors library/texts watch
watch/debug: core/compiler/reading core/compiler/writing core/language core/places errors
""".strip()
    .replace("\n    ", " ")
    .splitlines()
)

# files of roofline/ by floor: each imports from its own and those before it
FLOORS = {
    "machine": (
        "arguments ceiling contract files grid machine measuring microkernels physics side timing units"
    ),
    "count": (
        "cost counting counts digest host launch_arguments launch_counts memory operation_mix profiling "
        "templates timeline touched"
    ),
    "judge": "attainable cause causes checks compiled reasons verdicts",
    "report": (
        "case_list diff documents figure html parallel_counts printing reporting reports roofplot rows "
        "script tables target"
    ),
    "compare": (
        "__init__ __main__ compare compare_programs compare_revisions comparisons options process revision "
        "scoreboard"
    ),
}

# tokens of a room at most; a cap only falls (docs/decisions, rooms)
CAPS = {
    "core": 131_075,
    "portable": 231_050,
    "models": 329_025,
    "roofline as shipped": 67_075,
    "cases, peers and truth": 80_475,
    "docs": 44_800,
    "tests": 589_300,
}
