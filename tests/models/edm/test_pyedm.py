"""Run the cases of pyEDM's tests by both libraries where pyEDM is installed (`pip install pyEDM`; tested with
2.5.7).

SIMPLEX, SMAP and CCM have the calls of its tests by their names, on the data that its package brings; others
are functions here. No figures are stored: both libraries compute them. docs/coming-from/pyedm.md states where
they may differ.
"""

import re
import warnings
from pathlib import Path

import numpy as np
import pandas
import pytest
from numpy.testing import assert_allclose

from portable.errors import PortableError
from portable.models import edm
from portable.models.edm.composed import lagged_block

with warnings.catch_warnings(action="ignore"):
    pyedm = pytest.importorskip("pyEDM")

NOT_HERE = {f"test_embed_{what}" for what in "univariate multivariate include_time from_file".split()}
DATA = pyedm.sampleData


def holed(name):
    """Return a circle with gaps, or five Lorenz series with some."""
    data = DATA[name].copy()
    if name == "circle":
        data.iloc[[5, 6, 12], 1] = data.iloc[[10, 11, 17], 2] = np.nan
    else:
        data.iloc[[8, 50, 501], [1, 2]] = np.nan
    return data


def windows(flat):
    """Convert pyEDM's windows, which count from 1 and include their ends."""
    return [(a - 1, b) for a, b in zip(flat[::2], flat[1::2])]


def asked(data, columns, target, form):
    """Convert pyEDM's arguments to ours."""
    names = columns.split() if isinstance(columns, str) else columns
    E, tau, Tp = form.get("E", 0), -form.get("tau", -1), form.get("Tp", 1)
    ours = {"tau": tau, "Tp": Tp, "target": data[target].to_numpy(float)}
    if form.get("embedded"):
        ours |= {"E": 1, "tau": 1, "k": form.get("knn") or len(names) + 1}
    else:
        ours |= {"E": E, "k": form.get("knn") or E + 1}
    lib = windows(form["lib"])
    if Tp < 0:  # pyEDM omits the first times of each window
        lib = [(begin - Tp - 1, end) for begin, end in lib]
    ours |= {"lib": lib, "pred": windows(form["pred"]), "exclusion_radius": form.get("exclusionRadius", 0)}
    if "validLib" in form:
        ours["valid"] = np.asarray(form["validLib"], bool)
    return data[names].to_numpy(float), ours


def simplex_of(data, columns, target, **form):
    """Return (theirs, ours) at the times that both predict."""
    with warnings.catch_warnings(action="ignore"):
        theirs = pyedm.Simplex(dataFrame=data, columns=columns, target=[target], **form)
        x, ours = asked(data, columns, target, form)
        found = edm.simplex(x, **ours)
    return compared(data, theirs, found.times, found.predicted)


def compared(data, theirs, times, predicted):
    first = data.iloc[:, 0]
    kind = float if first.dtype.kind in "if" else str  # pyEDM converts whole numbers
    clock = first.astype(kind).tolist()
    ours = {clock[t]: p for t, p in zip(times.tolist(), predicted) if 0 <= t < len(clock) and np.isfinite(p)}
    theirs = theirs.dropna(subset=["Predictions"])
    both = [(p, ours[t]) for t, p in zip(theirs.iloc[:, 0].astype(kind), theirs.Predictions) if t in ours]
    assert len(both) >= 0.9 * min(len(theirs), len(ours)) > 0
    return np.array(both).T


THREE, CIRCLE, LORENZ, TENT = "block_3sp", "circle", "Lorenz5D", "TentMap"
# name of the test: data, columns, target, lib, pred, E, and the other arguments
SIMPLEX = {
    "E3_block_3sp": (THREE, "x_t", "x_t", "1 100", "101 195", 3, {}),
    "embedded_block_3sp": (THREE, "x_t y_t z_t", "x_t", "1 99", "100 198", 3, {"embedded": True}),
    "E3_block_3sp_kdWorkers": (THREE, "x_t", "x_t", "1 100", "101 195", 3, {"kdWorkers": 1}),
    "negative_tp": (THREE, "x_t", "y_t", "1 100", "50 80", 3, {"Tp": -2}),
    "valid_lib": (CIRCLE, "x", "x", "1 200", "1 200", 2, {"validLib": None}),
    "disjoint_lib": (CIRCLE, "x", "x", "1 40 50 130", "80 170", 2, {"tau": -3}),
    "disjoint_pred_nan": (
        "holed Lorenz5D",
        "V1",
        "V2",
        "1 50 101 200 251 500",
        "1 10 151 155 551 555 881 885 991 1000",
        5,
        {"Tp": 2},
    ),
    "exclusion_radius": (CIRCLE, "x", "y", "1 100", "21 81", 2, {"exclusionRadius": 5}),
    "nan_x_to_y": ("holed circle", "x", "y", "1 100", "1 95", 2, {}),
    "nan_y_to_x": ("holed circle", "y", "x", "1 200", "1 195", 2, {}),
    "datetime_index": ("SumFlow_1980-2005", "S12.C.D.S333", "S12.C.D.S333", "1 800", "801 1001", 3, {}),
    "string_lib_pred": (LORENZ, "V1", "V5", "1 300", "301 310", 5, {}),
    "list_single_column": (LORENZ, ["V1"], "V5", "1 300", "301 310", 5, {}),
    "list_multi": (LORENZ, ["V1", "V3"], "V5", "1 300", "301 310", 5, {}),
    "knn_zero": (LORENZ, "V1", "V5", "1 300", "301 310", 5, {"knn": 0}),
    "negative_tau": (LORENZ, "V1", "V5", "1 300", "301 310", 5, {"tau": -2}),
    "column_names_with_spaces": ("columnNameSpace", ["Var 1", "Var 2"], "Var 5 1", "1 80", "81 85", 5, {}),
    "tiebreak_exclusion": (TENT, TENT, TENT, "1 500", "1 500", 2, {"exclusionRadius": 5}),
    "tiebreak_deterministic": ("TentMapNoise", TENT, TENT, "1 300", "1 300", 3, {"exclusionRadius": 3}),
}


def data_of(name):
    return holed(name.removeprefix("holed ")) if name.startswith("holed ") else DATA[name]


def call_of(row):
    """Return (data, columns, target, pyEDM's other arguments) of a row."""
    name, columns, target, lib, pred, E, more = row
    form = {"lib": list(map(int, lib.split())), "pred": list(map(int, pred.split())), "E": E}
    return data_of(name), columns, target, form | more


@pytest.mark.parametrize("case", SIMPLEX)
def test_simplex(case):
    data, columns, target, form = call_of(SIMPLEX[case])
    if "validLib" in form:
        form = form | {"validLib": data.eval("x > 0.5 | x < -0.5").tolist()}
    theirs, ours = simplex_of(data, columns, target, **form)
    off = abs(theirs - ours) > 1e-5
    # equal distances: portable takes the earlier candidate
    assert off.sum() <= {"datetime_index": 2, "disjoint_lib": 12}.get(case, 0)


SMAP = {
    "circle_E4": (CIRCLE, "x", "x", "1 100", "110 160", 4, {}),
    "embedded_circle_E2": (CIRCLE, ["x", "y"], "x", "1 200", "1 200", 2, {"embedded": True}),
    "nan": ("holed circle", "x", "y", "1 50", "1 50", 2, {}),
    "no_time": ("circle_noTime", "x", "y", "1 100", "101 150", 2, {"noTime": True}),
    "exclusion": (TENT, TENT, TENT, "1 500", "1 500", 2, {"knn": 20, "exclusionRadius": 5}),
    "liboverlap": (TENT, TENT, TENT, "1 300", "1 300", 2, {"knn": 15}),
    "disjoint_fast_path": (TENT, TENT, TENT, "1 100", "201 500", 2, {"knn": 10}),
}


@pytest.mark.parametrize("case", SMAP)
def test_smap(case):
    """Use as many neighbours as pyEDM, which by default takes all but one."""
    data, columns, target, form = call_of(SMAP[case])
    form |= {"theta": 3.0}
    with warnings.catch_warnings(action="ignore"):
        done = pyedm.SMap(dataFrame=data, columns=columns, target=[target], returnObject=True, **form)
        x, ours = asked(data, columns, target, form | {"knn": done.knn})
        found = edm.smap(x, theta=form["theta"], **ours)
    clock = data.assign(row=np.arange(1, len(data) + 1))[["row"]] if form.get("noTime") else data
    theirs, ours = compared(clock, done.Projection, found.times, found.predicted[0])
    assert_allclose(ours, theirs, rtol=0, atol=5e-6)


def test_embedded_smap_coefficients():
    circle = DATA[CIRCLE]
    found = edm.smap(circle, 1, theta=3.0, columns=["x", "y"], target="x", k=198).to_pandas()
    assert round(found["d x(t)"].mean(), 5) == 0.99801 and round(found["d y(t)"].mean(), 5) == 0.06311


CCM = {
    "anchovy_sst": ("sardine_anchovy_sst", "anchovy", "np_sst", [10, 20, 30, 40, 50, 60, 70, 75], {"E": 3}),
    "multivariate_lorenz": (LORENZ, ["V3", "V5"], "V1", [20, 200, 500, 950], {"E": 5, "Tp": 10, "tau": -5}),
    "nan": ("holed circle", "x", "y", [10, 190, 10], {"E": 2, "Tp": 5}),
    "column_names_with_spaces": (
        "columnNameSpace",
        ["Var 1", "Var3", "Var 5 1"],
        "Var 2",
        [20, 50, 90],
        {"E": 5},
    ),
    "negative_tp": (CIRCLE, "x", "y", [20, 200, 50], {"E": 2, "Tp": -5}),
    "exclusion_radius": (CIRCLE, "x", "y", [20, 200, 30], {"E": 2, "Tp": 3, "exclusionRadius": 5}),
    "positive_tau": (CIRCLE, "x", "y", [20, 200, 30], {"E": 2, "tau": 3}),
    "embedded": (LORENZ, ["V1", "V2", "V3"], "V5", [50, 950, 100], {"embedded": True}),
    "legacy": (THREE, "x_t", "z_t", [20, 190, 10], {"E": 5}),
}


@pytest.mark.parametrize("case", CCM)
def test_ccm(case):
    """Means of libraries drawn independently agree within four standard errors; sizes for which a Tp leaves
    no points are refused by portable, and reduced by pyEDM."""
    name, columns, target, sizes, more = CCM[case]
    data, n, form = data_of(name), 30, {"libSizes": sizes, "Tp": 0} | more
    with warnings.catch_warnings(action="ignore"):
        done = pyedm.CCM(
            dataFrame=data, columns=columns, target=[target], sample=n, seed=7, parallel=False, **form
        )
        x, ours = asked(data, columns, target, {"lib": [1, len(data)], "pred": [1, len(data)]} | form)
        del ours["lib"], ours["pred"]
        if ours["tau"] < 0:  # later values are coordinates: the point's label is its last time
            ours |= {"tau": -ours["tau"], "Tp": ours["Tp"] + (ours["E"] - 1) * ours["tau"]}
        most = len(x) - (ours["E"] - 1) * ours["tau"] - abs(ours["Tp"]) - 8 * name.startswith("holed")
        sizes = done.LibSize[done.LibSize <= most].astype(int).to_numpy()
        found = edm.ccm(
            x, E=ours.pop("E"), target=ours.pop("target"), library_sizes=sizes, n_samples=n, **ours
        )
    off = abs(found.mean - done.iloc[: len(sizes), 1])
    assert len(sizes) > 1 and (off <= 4 * found.rho.std(axis=1) * np.sqrt(2 / n) + 2e-3).all(), off


def sweep(theirs, ours):
    assert_allclose(ours, theirs, rtol=0, atol=2e-6)


def quiet(function, data, columns, **form):
    with warnings.catch_warnings(action="ignore"):
        return function(
            dataFrame=data, columns=columns, target=columns, showPlot=False, numProcess=1, **form
        ).rho


def test_embed_dimension_lorenz():
    x = DATA[LORENZ].V1
    theirs = quiet(
        pyedm.EmbedDimension,
        DATA[LORENZ],
        "V1",
        maxE=12,
        lib=[1, 500],
        pred=[501, 800],
        Tp=15,
        tau=-5,
        exclusionRadius=20,
    )
    keys = {"lib": (0, 500), "pred": (500, 800), "Tp": 15, "tau": 5, "exclusion_radius": 20}
    sweep(theirs, [edm.simplex(x, E, **keys).rho for E in range(1, 13)])


def test_predict_interval_block_3sp():
    x, keys = DATA[THREE].x_t, {"lib": (0, 150), "pred": (150, 198)}
    theirs = quiet(pyedm.PredictInterval, DATA[THREE], "x_t", maxTp=15, lib=[1, 150], pred=[151, 198], E=3)
    sweep(theirs, [edm.simplex(x, 3, Tp=Tp, **keys).rho for Tp in range(1, 16)])


def test_predict_nonlinear_tentmap():
    theta, data = [0.01, 0.1, 0.5, 1, 2, 4, 8, 20], DATA["TentMapNoise"]
    form = {"lib": [1, 500], "pred": [501, 800], "E": 4, "theta": theta}
    theirs = quiet(pyedm.PredictNonlinear, data, "TentMap", **form)
    ours = edm.smap(data.TentMap, 4, theta=theta, lib=(0, 500), pred=(500, 800), k=495)
    sweep(theirs, ours.rho)


def test_predict_exclusion_radius_sum_flow():
    name, radii = "S12.C.D.S333", [0, 2, 5, 10]
    data = DATA["SumFlow_1980-2005"]
    form = {"lib": [1, 900], "pred": [1, 900], "E": 7, "tau": -3, "Tp": 0, "exclusionRadius": radii}
    theirs = quiet(pyedm.PredictExclusionRadius, data, name, **form)
    keys = {"lib": (0, 900), "pred": (0, 900), "tau": 3, "Tp": 0}
    sweep(theirs, [edm.simplex(data[name].to_numpy(), 7, exclusion_radius=r, **keys).rho for r in radii])


def test_knn1_neighbors():
    """pyEDM's rows are times from 0, like ours for E = 1."""
    form = {
        "columns": "V5",
        "target": "V5",
        "lib": [301, 400],
        "pred": [350, 355],
        "knn": 1,
        "embedded": True,
    }
    theirs = pyedm.Simplex(dataFrame=DATA[LORENZ], returnObject=True, **form).knn_neighbors[:, 0]
    ours = edm.knn(DATA[LORENZ].V5, 1, k=1, Tp=1, lib=(300, 400), pred=(349, 355)).indices[:, 0]
    assert ours.tolist() == theirs.tolist() == [322, 334, 362, 387, 356, 355]


def test_exclusion_radius_knn():
    ours = edm.knn(np.arange(1.0, 1001), 5, k=1, Tp=1, exclusion_radius=10, lib=(0, 100), pred=(100, 110))
    assert (ours.indices[:, 0] + 4).tolist() == [*range(89, 99)]


def test_neighbor_ties():
    """Values are whole numbers: of equal distances portable takes the earlier time, pyEDM the mean of all."""
    file = pyedm.__path__[0] + "/tests/validation/Smplx_NeighborTies.csv"
    data = pandas.read_csv(file)
    form = {"lib": [1, 96], "pred": [1, 96], "E": 1, "Tp": 0, "exclusionRadius": 1, "noTime": True}
    found = edm.simplex(data["1137"], 1, target=data["1135"], Tp=0, exclusion_radius=1)
    with warnings.catch_warnings(action="ignore"):
        theirs = pyedm.Simplex(dataFrame=data, columns="1137", target="1135", **form).Predictions
    x, differ = data["1137"].to_numpy(float), abs(theirs - found.predicted) > 1e-5
    for t in np.flatnonzero(differ):
        d = np.sort(abs(x - x[t])[abs(np.arange(96) - t) > 1])
        assert d[1] == d[2] or d[0] == d[1]  # a tie at the last of both neighbours
    assert not differ.all()


def test_tiebreak_deficiency_no_leakage():
    x = np.arange(1.0, 9)
    y = x**2
    with pytest.warns(RuntimeWarning, match="fewer than k"):
        found = edm.simplex(y, 2, target=x, Tp=0, exclusion_radius=3, k=1)
    assert np.isnan(found.predicted).any()
    with pytest.raises(PortableError, match="k is 3"):  # no point has three: in pyEDM all are NaN or use one
        edm.simplex(y, 2, target=x, Tp=0, exclusion_radius=4)


def test_deficiency_padding_and_nan():
    x, y = (f(np.arange(10) / 1.5) for f in (np.sin, np.cos))
    with pytest.raises(PortableError, match="exclusion_radius = 8"):
        edm.smap(y, 2, theta=3.0, target=x, Tp=0, exclusion_radius=8, k=3)


def test_validlib_filtering_no_leakage():
    x, valid = DATA["TentMap"].TentMap[:200], np.arange(200) % 3 > 0
    found = edm.knn(x, 2, Tp=1, valid=valid, exclusion_radius=2)
    assert valid[found.indices + 1].all() and (abs(found.indices - found.points[:, None]) > 2).all()


def test_smap_validlib_fewer_than_knn():
    x, valid = np.arange(12.0), np.zeros(12, bool)
    valid[3] = True
    with pytest.raises(PortableError, match="k is 3, but the library has 1"):
        edm.smap(x, 2, theta=1.0, valid=valid)


@pytest.mark.parametrize(
    "name, column, E, theta", [(CIRCLE, "x", 2, None), (LORENZ, "V1", 5, None), (CIRCLE, "x", 2, 3.0)]
)
def test_generate(name, column, E, theta):
    """Generate twenty steps; pyEDM's series end before chaos separates them."""
    data, n = DATA[name], len(DATA[name])
    form = {"columns": column, "target": column, "lib": [1, n], "pred": [1, E], "E": E, "generateSteps": 20}
    with warnings.catch_warnings(action="ignore"):
        theirs = (
            pyedm.Simplex(dataFrame=data, **form)
            if theta is None
            else pyedm.SMap(dataFrame=data, theta=theta, **form)["predictions"]
        )
        options = {} if theta is None else {"theta": theta, "k": n - E - 1}
        ours = edm.forecast(data[column], E, 20, **options)
    assert_allclose(ours[:8, 0], theirs.Predictions.dropna()[:8], rtol=0, atol=1e-3)


def test_multiview_predictions_and_combos():
    """Compare with the loop of docs/edm.md, ranked by the predicted windows, as in pyEDM's test."""
    from itertools import combinations

    data, names = DATA[THREE], ["x_t", "y_t", "z_t"]
    theirs = pyedm.Multiview(
        dataFrame=data,
        columns=names,
        target=["x_t"],
        lib=[1, 100],
        pred=[101, 198],
        D=0,
        E=3,
        trainLib=False,
        numProcess=1,
    )
    block = lagged_block(data[names].to_numpy(float), 3, 1)
    keys = {"target": data.x_t.to_numpy(float), "k": 4, "lib": (0, 100), "pred": (100, 198)}
    found = {v: edm.simplex(block[:, v], **keys) for v in combinations(range(9), 3)}
    best = sorted(found, key=lambda v: found[v].rho, reverse=True)[:9]  # the root of 84
    assert_allclose([found[v].rho for v in best], theirs["View"].rho, rtol=0, atol=1e-4)
    mean = np.mean([found[v].predicted for v in best], axis=0)
    assert_allclose(mean, theirs["Predictions"].Predictions.dropna(), rtol=0, atol=1e-4)


def test_all_of_its_tests_are_asked():
    files = Path(pyedm.__path__[0], "tests").glob("test_*.py")
    theirs = {name for file in files for name in re.findall(r"^def test_(\w+)", file.read_text(), re.M)}
    kinds = {"simplex": SIMPLEX, "api": SIMPLEX, "smap": SMAP, "ccm": CCM}
    asked_here = [f"{kind}_{case}" for kind, cases in kinds.items() for case in cases]
    asked_here += [
        "disjoint_no_filtering",
        "liboverlap",
        *(n[5:] for n in globals() if n.startswith("test_")),
    ]
    left = {name for name in theirs if not any(key in name for key in asked_here)}
    assert {f"test_{name}" for name in left} <= NOT_HERE and len(theirs) - len(left) >= 50, left
