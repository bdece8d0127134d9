"""Test polygons as regions: area, places, masses of normal densities by closed forms; noise in a disc."""

import json
import math

import numpy as np
import pytest
from numpy.random import default_rng

from portable.errors import InputError, ShapeError
from portable.models import hawkes
from portable.models.hawkes import fit_background, read_catalogue, regions
from portable.models.hawkes.__main__ import main


ELL = [[0, 0], [0, 10], [5, 10], [5, 5], [10, 5], [10, 0]]
HOLE = [[1, 1], [2, 1], [2, 2], [1, 2]]
CLOSED = [[*ring, ring[0]] for ring in (ELL, HOLE)]
TURN = np.linspace(0.0, 2.0 * np.pi, 181)[:-1]
DISC = 20.0 * np.c_[np.cos(TURN), np.sin(TURN)]


def polygon(source):
    return regions.Polygon(regions.read_polygon(source))


def box(low, high):
    return regions.Box(np.array(low, float), np.array(high, float))


def test_area_places_and_masses():
    """Compare an L with a hole with the difference of two boxes; widths from a thousandth of the region to
    ten times it.
    """
    random = default_rng(1)
    places, widths = random.uniform(-1.0, 11.0, (500, 2)), 10.0 ** random.uniform(-2.0, 2.0, 500)
    parts = box([0, 0], [5, 10]), box([5, 0], [10, 5]), box([1, 1], [2, 2])
    for rings in ([ELL, HOLE], [ELL[::-1], HOLE[::-1]]):
        region = polygon({"type": "Polygon", "coordinates": [[*ring, ring[0]] for ring in rings]})
        assert region.area == pytest.approx(74.0, rel=1e-14)
        a, b, hole = (part.holds(places) for part in parts)
        np.testing.assert_array_equal(region.holds(places), (a | b) & ~hole)
        a, b, hole = (part.mass(places, widths) for part in parts)
        np.testing.assert_allclose(region.mass(places, widths), a + b - hole, atol=1e-6)
    corners = np.array([[0.0, 0.0], [10.0, 2.0], [5.0, 7.0]])
    assert region.holds(corners).all() and polygon(DISC).mass(np.zeros((1, 2)), [8.0]) == pytest.approx(
        1.0 - math.exp(-0.5 * 2.5**2), rel=1e-3
    )


class Shape:  # an object like shapely's
    __geo_interface__ = {"type": "MultiPolygon", "coordinates": [CLOSED]}


def test_what_a_polygon_may_be(tmp_path):
    rings = ", ".join(f"({', '.join(f'{x} {y}' for x, y in ring)})" for ring in CLOSED)
    file = tmp_path / "region.geojson"
    geometry = {"type": "Polygon", "coordinates": CLOSED}
    feature = {"type": "Feature", "geometry": geometry}
    file.write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
    for source in (f"POLYGON ({rings})", file, str(file), feature, Shape()):
        assert polygon(source).area == pytest.approx(74.0)
    assert polygon(np.array(ELL)).area == polygon(ELL).area == pytest.approx(75.0)


def test_noise_in_a_disc():
    """For uniform events in a disc, a fit to a box attributes its empty corners to triggering; a fit to the
    polygon does not.
    """
    random = default_rng(3)
    places = 19.9 * np.sqrt(random.uniform(size=(800, 1)))
    angle = random.uniform(0.0, 2.0 * np.pi, 800)
    places = places * np.c_[np.cos(angle), np.sin(angle)]
    times = np.sort(random.uniform(0.0, 8766.0, 800))
    how = {"horizon_h": 8766.0, "n_simulations": 0, "space": "threads"}
    boxed, right = (
        fit_background(places, times, "constant", **how, **window).fit for window in ({}, {"polygon": DISC})
    )
    assert boxed.params.theta > 0.3 and right.params.theta < 0.1
    assert right.params.mu0 == pytest.approx(1.0, abs=0.1)
    spread = fit_background(places, times, "declustered", bandwidth_km=5.0, polygon=DISC, max_iter=2, **how)
    grid = np.stack(np.meshgrid(*(np.arange(-19.9, 20.0, 0.4),) * 2), axis=-1).reshape(-1, 2)
    mass = spread.background.at(grid, np.full(len(grid), 4000.0)).sum() * 0.4**2 * 8766.0 / 800.0
    assert mass == pytest.approx(1.0, abs=0.02)  # kernels keep their mass within the disc
    drawn = spread.background.draw(default_rng(1), 1.0, 0.0, 8766.0)[0]
    assert (np.hypot(*drawn.T) <= 20.0).all() and abs(len(drawn) - 800) < 150


def test_longitude_and_latitude():
    """A polygon is projected as the events are."""
    table = {"lon": [10.0, 10.2, 10.4], "lat": [50.0, 50.2, 50.1], "t": [0.0, 5.0, 9.0]}
    events = read_catalogue(table, places=("lon", "lat"), time="t", lonlat=True)
    region = regions.Polygon(events.polygon([[9.9, 49.9], [10.5, 49.9], [10.5, 50.3], [9.9, 50.3]]))
    height, width = math.radians(0.4) * 6371.0, math.radians(0.6) * 6371.0 * math.cos(math.radians(50.1))
    assert region.holds(events.locations).all() and region.area == pytest.approx(height * width, rel=2e-3)

    # over 25 degrees edges along a parallel are curves on the plane; areas are those of the sphere
    wide = read_catalogue(
        {"lon": [170.0, -165.0, -177.0], "lat": [25.0, 50.0, 37.0], "t": [0.0, 5.0, 9.0]},
        places=("lon", "lat"),
        time="t",
        lonlat=True,
    )
    region = regions.Polygon(wide.polygon([[170, 25], [195, 25], [195, 50], [170, 50]]))
    between = math.sin(math.radians(50.0)) - math.sin(math.radians(25.0))
    assert region.area == pytest.approx(6371.0088**2 * math.radians(25.0) * between, rel=1e-5)
    with pytest.raises(InputError, match="places names the column of times, 't'"):
        read_catalogue(table, places=("lon", "t"), time="t")


def test_the_command(tmp_path, told, capsys):
    random = default_rng(4)
    x, t = random.uniform(0.0, 9.0, (60, 2)), np.sort(random.uniform(0.0, 900.0, 60))
    rows = "\n".join(f"{a},{b},{c}" for (a, b), c in zip(x, t))
    (tmp_path / "events.csv").write_text(f"x_km,y_km,t_hours\n{rows}\n")
    fit = f"fit {tmp_path}/events.csv --method likelihood --figures none --simulations 0".split()
    fit += f"--background constant --season 24 --out {tmp_path}".split()
    for name, right, status in (("right", 9.1, 0), ("wrong", 5.0, 2)):
        ring = [[0, 0], [right, 0], [right, 9.1], [0, 9.1], [0, 0]]
        file = tmp_path / f"{name}.geojson"
        file.write_text(json.dumps({"type": "Polygon", "coordinates": [ring]}))
        assert main([*fit, *f"--polygon {file}".split()]) == status
    said = capsys.readouterr()
    assert "events lie outside" in said.err and "season of 24 hours: " in said.out
    assert main([*fit, *f"--polygon {file} --background paper".split()]) == 2
    assert "--polygon is for a fitted background" in told.err


def test_wrong_calls():
    x, t = np.array([[1.0, 1.0], [4.0, 4.0], [2.0, 3.0]]), np.array([0.0, 1.0, 2.0])
    small = [[0, 0], [3.5, 0], [3.5, 3.5], [0, 3.5]]
    for error, words, wrong in (
        (InputError, r"not simple: Self-intersection at \(4.5 4.5\)", [[0, 0], [9, 9], [9, 0], [0, 9]]),
        (InputError, r"1 of 3 events lie outside, the first is number 1 at \(4, 4\)", small),
        (InputError, "expected", [[0, 0], [1, 1]]),
        (ShapeError, "polygon has shape", [1.0, 2.0]),
        (InputError, "polygon is a Point", {"type": "Point", "coordinates": [0, 0]}),
        (InputError, "polygon is a LineString", "LINESTRING (0 0, 1 1)"),
        (InputError, "vertices, WKT or GeoJSON", "POLYGON (0 0"),
        (InputError, "No such file", "nowhere.geojson"),
    ):
        with pytest.raises(error, match=words):
            fit_background(x, t, "constant", polygon=wrong)
    with pytest.raises(InputError, match="replaces box_km"):
        fit_background(x, t, "constant", polygon=ELL, box_km=((0.0, 9.0),) * 2)


def test_offspring_beyond_the_edge_are_told():
    """For families around the middle of a box as wide as h, the share outside is that of a normal density."""
    random = default_rng(5)
    truth = hawkes.Parameters(1.0, 1.0, 1.0, 0.6, 1.0, 1.0)
    made = hawkes.simulate(
        truth,
        n_immigrants=400,
        horizon_h=4000.0,
        immigrants=lambda r, n: (r.uniform(-1.0, 1.0, (n, 2)), r.uniform(0.0, 4000.0, n)),
        seed=random,
    )
    inside = (np.abs(made.locations) <= 1.0).all(axis=1)
    found = fit_background(
        made.locations[inside],
        made.times[inside],
        "constant",
        box_km=((-1.0, 1.0),) * 2,
        horizon_h=4000.0,
        n_simulations=0,
        space="threads",
    )
    h = found.fit.params.h
    grid = np.linspace(-1.0, 1.0, 201)
    along = math.fsum(
        0.5 * (math.erf((1.0 - x) / (h * 2**0.5)) + math.erf((1.0 + x) / (h * 2**0.5))) for x in grid
    )
    assert found.outside == pytest.approx(1.0 - (along / 201) ** 2, abs=0.05)
    assert f"{found.outside:.0%} of offspring fall outside of the region" in found.fit.notes[-1]
