"""Regions of observation: a box, or polygons, with or without holes, as from a map.

The mass of a normal density with sd w about a point inside a polygon is a sum over its edges: with d the
signed distance from the point to the line of the edge, and s the position along it,

    1 / (2 pi)  sum_edges  integral d (1 - exp(-(d^2 + s^2) / (2 w^2))) / (d^2 + s^2) ds

which is the integral in polar coordinates about the point, for points inside and outside the polygon.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..shared import InputError, ShapeError, check_numbers, need

# Nodes and weights of an edge's integral, on a scale that is linear within w and logarithmic beyond.
_NODES, _SHARES = np.polynomial.legendre.leggauss(48)


class Box:
    """The region between two corners."""

    def __init__(self, low, high):
        self.low, self.high = low, high
        self.area = float(np.prod(high - low))

    def holds(self, places):
        return ((places >= self.low) & (places <= self.high)).all(axis=1)

    def draw(self, random, n):
        return random.uniform(self.low, self.high, (n, len(self.low)))

    def areas(self, low, high):
        """Return the area inside the region of each of some boxes."""
        sides = np.minimum(high, self.high) - np.maximum(low, self.low)
        return np.maximum(sides, 0.0).prod(axis=1)

    def mass(self, places, widths):
        """Return the mass inside the region of a normal density about each place, with sds `widths`."""
        mass = np.ones(len(places))
        for column, low, high in zip(places.T, self.low, self.high):
            mass *= _normal_cdf((high - column) / widths) - _normal_cdf((low - column) / widths)
        return mass


class Polygon:
    """The region within a polygon or multipolygon of shapely."""

    def __init__(self, shape):
        shapely = need("shapely", "maps", "polygons")
        self.shape, self.area = shape, shape.area
        self.low, self.high = np.reshape(shape.bounds, (2, 2))
        # outer rings are counterclockwise and holes clockwise, so that the masses of holes are subtracted
        parts = shapely.get_parts(shapely.orient_polygons(shape))
        rings = [np.array(ring.coords)[:, :2] for part in parts for ring in (part.exterior, *part.interiors)]
        self.begin = np.concatenate([ring[:-1] for ring in rings])
        self.step = np.concatenate([np.diff(ring, axis=0) for ring in rings])

    def holds(self, places):
        shapely = need("shapely", "maps", "polygons")
        shapely.prepare(self.shape)
        return shapely.intersects_xy(self.shape, *places.T)

    def draw(self, random, n):
        """Draw n uniform locations by rejection."""
        found = np.empty((0, 2))
        while len(found) < n:
            some = random.uniform(self.low, self.high, (2 * n, 2))
            found = np.concatenate([found, some[self.holds(some)]])
        return found[:n]

    def areas(self, low, high):
        """Return the area inside the region of each of some boxes."""
        shapely = need("shapely", "maps", "polygons")
        return shapely.area(shapely.intersection(self.shape, shapely.box(*low.T, *high.T)))

    def mass(self, places, widths):
        """Return the mass inside the region of a normal density about each place, with sds `widths`."""
        return np.array([self._mass(*one) for one in zip(places, widths)])

    def _mass(self, place, w):
        (x, y), (dx, dy) = (self.begin - place).T, self.step.T
        length = np.hypot(dx, dy)
        d, s = (x * dy - y * dx) / length, (x * dx + y * dy) / length
        scale = np.hypot(d, w)
        low, high = np.arcsinh(s / scale), np.arcsinh((s + length) / scale)
        half = 0.5 * (high - low)
        y = (low + half)[:, None] + np.outer(half, _NODES)
        r2 = d[:, None] ** 2 + (scale[:, None] * np.sinh(y)) ** 2
        value = -np.expm1(-0.5 * r2 / w**2) / np.maximum(r2, 1e-300) * np.cosh(y)
        return (half * d * scale) @ (value @ _SHARES) / (2.0 * math.pi)


def read_polygon(source):
    """Return a valid Polygon or MultiPolygon of shapely, given one; GeoJSON (a file, a mapping, or an
    object with `__geo_interface__`); WKT; or the vertices of a ring."""
    shapely = need("shapely", "maps", "polygons")
    source = getattr(source, "__geo_interface__", source)
    if not isinstance(source, (Path, str, Mapping)):
        source = check_numbers(source, "polygon", 2)
    try:
        if isinstance(source, Path) or (isinstance(source, str) and source.endswith("json")):
            shape = shapely.from_geojson(Path(source).read_text())
        elif isinstance(source, Mapping):
            shape = shapely.from_geojson(json.dumps(source))
        elif isinstance(source, str):
            shape = shapely.from_wkt(source)
        else:
            shape = shapely.polygons(source)
    except (OSError, ValueError, shapely.errors.ShapelyError) as error:
        raise InputError(f"polygon: {error}; expected vertices, WKT or GeoJSON of a polygon") from None
    if shape.geom_type == "GeometryCollection":
        shape = shapely.union_all(shape.geoms)
    if shape.geom_type not in ("Polygon", "MultiPolygon") or shape.is_empty:
        raise InputError(f"polygon is a {shape.geom_type}; expected a Polygon or MultiPolygon")
    if not shape.is_valid:
        reason = shapely.is_valid_reason(shape).replace("[", " at (").replace("]", ")")
        raise InputError(f"polygon is not simple: {reason}; expected one that does not cross itself")
    return shape


def region_of(box_km, polygon, locations):
    """Return a Polygon that contains all events, or a Box, by default the bounding box of the events."""
    if polygon is None:
        if box_km is not None:
            return Box(*check_box(box_km, locations.shape[1]))
        low, high = locations.min(axis=0), locations.max(axis=0)
        if not (low < high).all():
            raise InputError("locations have no extent in some dimension; give box_km")
        return Box(low, high)
    if box_km is not None or locations.shape[1] != 2:
        raise InputError("polygon needs places of two dimensions, and replaces box_km; leave one out")
    region = Polygon(read_polygon(polygon))
    outside = np.flatnonzero(~region.holds(locations))
    if outside.size:
        n, (x, y) = outside[0], locations[outside[0]]
        raise InputError(
            f"polygon: {outside.size} of {len(locations)} events lie outside, the first is number {n} at"
            f" ({x:g}, {y:g}) km; leave them out, or correct the polygon, in kilometres as the locations"
        )
    return region


def _normal_cdf(z):
    return 0.5 * np.array([math.erfc(-v / math.sqrt(2.0)) for v in z])


def check_box(box_km, n_dims=None):
    """Return the lower and upper corner of a box, shape (2, n_dims)."""
    box = check_numbers(box_km, "box_km", 2)
    if box.shape[1] != 2 or box.shape[0] not in ((1, 2, 3) if n_dims is None else (n_dims,)):
        raise ShapeError(
            f"box_km has shape {box.shape}; expected a pair low < high for each of "
            f"{n_dims or '1, 2 or 3'} dimensions"
        )
    if not (box[:, 0] < box[:, 1]).all():
        raise InputError(f"box_km is {box.tolist()}; expected pairs with low < high")
    return box.T
