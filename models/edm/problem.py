"""Checked arguments of a search for neighbours, and the ways to search."""

import copy
import functools
import math
import warnings

import numpy as np

import portable as pk

from ..shared import DType, InputError, check_choice, check_count, launch, new_array
from . import frames, plans, point_kernels, tree
from . import list_kernels as kernels
from .checks import (
    LARGEST,
    SMALLEST,
    check_columns,
    check_enough,
    check_targets,
    extremes,
    known_points,
    without_variation,
)
from .layout import found_in, lay_out, places_of, times_within, warn_of_copies
from .search import (
    SUMMARY_TEAM,
    Columns,
    Library,
    Lines,
    Search,
    as_vector,
    coordinates,
    on_the_host,
    power_of_two,
)
from .segments import number_of
from .skill import NO_VARIATION, values_at
from .surrogates import Surrogates, check_kinds

FEW = 64  # largest k for which neighbours are inserted into a sorted list one by one
# Up to this many candidates (measured on one thread), or pairs per team that runs at a time, computing all
# distances costs less than the launches of a sort
SORTED, PAIRS = 1000, 1 << 17
CORRELATING = 512  # team members that correlate the predictions of a target
# Largest number of times, and of neighbours, for the kernel by one team in registers: each member has one
# value, so that sums over members are bit-identical to those of larger teams
SHORT, MOST_KEPT = SUMMARY_TEAM, 21
PLAIN = {int, str, type(None)}  # types of arguments that serve as keys of the cache in `shared_problem`


class Problem:
    """Checked arguments of a search for neighbours: candidates, points, and the series they are taken from.

    Rows of the library are numbered by `places`, those of the points by `point_places`: see
    `portable.models.edm.layout`.
    """

    short = None  # the Problem that is shared by short complete series of this form, if this is one

    def __init__(
        self,
        library,
        names,
        target,
        points,
        E,
        window,
        dtype,
        horizons=None,
    ):
        label = [target] if frames.is_label(target) else None
        library, target, self.index, self.names, self.cut = frames.series_of(
            library, names, target, window.segments
        )
        self.series = frames.names_of(library) if names is None else list(map(str, frames.listed(names)))
        self.same, self.point_cut, columns = points is None, self.cut, check_columns(library, "library")
        asked = columns if self.same else self._other_points(points, columns.shape[1], window.segments)
        self.n_times = len(columns)
        others = len(asked), self.point_cut
        self.E, self.window = window.checked(E, "library", self.n_times, self.cut, others)
        self.tau, self.Tp, k, self.radius, *_ = self.window
        self.dtype = np.dtype(check_choice(dtype, "dtype", DType))
        self.column, self.lag = coordinates(columns.shape[1], self.E, self.tau)
        self.front = (self.E - 1) * self.tau
        self.k = self.E + 1 if k is None else k
        self._lay_out(columns, asked, horizons or (self.Tp,))
        self._find_known()
        self.several = np.ndim(target) == 2
        self.given = None if target is None else check_targets(target, self.n_times)
        self.target = self.columns[:, :1] if target is None else self.places.spread(self.given)
        self.labels = [str(c) for c in (label or self.names or range(self.target.shape[1]))]

    def of(self, columns):
        """Return this Problem for another complete series, shape (n_times, 1)."""
        other = object.__new__(Problem)
        vars(other).update(vars(self), inputs={"library": columns}, times=self.times.copy())
        other.columns = other.masked = other.point_columns = other.target = columns
        return other

    def _other_points(self, points, n_columns, segments):
        """Return the checked columns of `points`, a series other than the library."""
        named = frames.is_label(segments) and not isinstance(points, (np.ndarray, list))
        points, self.point_cut = frames.timed(points, "points", segments if named else None)
        self.index = frames.index_of(points)
        return check_columns(points, "points", n_columns)

    def _lay_out(self, columns, asked, horizons):
        """Lay out candidates and points by `portable.models.edm.layout`, with gaps between segments, and the
        points of `window` with them."""
        lib, pred, valid = self.window[4:7]
        found = 0 if self.same else found_in(asked, columns)
        shifted = [] if found is None else [(begin + found, end + found) for begin, end in pred]
        laid = lay_out(columns, lib, shifted, valid, self.cut, max(self.front, self.radius), horizons)
        self.places, self.columns, self.masked, self.candidates, within = laid
        self.in_library, self.point_places, self.point_columns = found is not None, self.places, self.columns
        if not self.in_library:
            self.radius = -1  # excludes no candidate
            warn_of_copies(columns, asked, self.front, self.column, self.lag)
            gap = max(self.front, abs(self.Tp))
            self.point_places = places_of(len(asked), (pred,), gap, self.point_cut)
        elif not self.same:
            self.point_places = self.places.part(found, len(asked))
        if not self.same:
            self.point_columns = self.point_places.spread(asked)
            within = self.point_places.windows(pred)
        self.window = self.window._replace(exclusion_radius=self.radius, pred=within)
        self.points = self.point_places.of(times_within(pred, self.front, len(asked)))
        if not self.points.size:
            raise InputError(
                f"pred is {pred}, which has no point with E = {self.E} and tau = {self.tau}: the first is "
                f"at {self.front}"
            )
        if len(self.lag) == 1 and not _run_on(self.candidates):  # for `_search_line`
            self.masked = np.full_like(self.columns, np.nan)
            self.masked[self.candidates] = self.columns[self.candidates]
        flags = None if valid is None else valid.tobytes()
        self.form = self.E, self.tau, self.Tp, self.k, self.radius, self.dtype, tuple(lib), tuple(pred)
        self.form += self.places, self.point_places, flags

    def _find_known(self):
        """Find the points that have all coordinates and enough candidates."""
        every = known_points(self.point_columns, self.lag)
        self.first, self.n_span = int(self.points[0]), int(self.points[-1] - self.points[0]) + 1
        self.every_row = self.n_span == len(self.points)
        self.rows = slice(None) if self.every_row else self.points - self.first
        known = every[self.points]
        candidates = every if self.masked is self.point_columns else known_points(self.masked, self.lag)
        self.valid = self.candidates[candidates[self.candidates]]
        enough = check_enough(self.valid, len(self.columns), self.points, known, self.k, self.radius)
        self.known = known & enough

    @functools.cached_property
    def parts(self):
        """Segment of each point, counted from 0; None without segments."""
        ends = self.point_places.times(self.points)
        return None if self.point_cut is None else number_of(self.point_cut, ends)

    def index_at(self, times):
        """Return the names of the times, one per point, and of the points' segments; None for either without
        names."""
        names = None if self.parts is None else np.array(self.point_cut.names)[self.parts]
        return frames.at_times(self.index, times, self.parts, self.point_cut), names

    def kinds(self, n_surrogates, surrogate, period, block):
        """Return the kind and period of the surrogates of each target; None for each if no surrogates are
        requested."""
        if not check_count(n_surrogates, "n_surrogates", 0) and surrogate is None:
            return [None] * self.given.shape[1]
        return check_kinds(self.given, surrogate, period, block, "target", self.labels, self.cut)

    def surrogates(self, columns, kinds, seed, block):
        """Return the Surrogates of these targets."""
        form = {"block": block, "E": self.E, "tau": self.tau, "segments": self.cut}
        return Surrogates(columns, kinds, seed, **form)

    def still(self):
        """Return True, after a warning, if the library or a target does not vary."""
        return without_variation(library=self.columns, target=self.given)

    @functools.cached_property
    def times(self):
        """Time of the prediction of each point, t + Tp, in the points' series."""
        times = new_array(len(self.points), np.int64)
        return np.add(self.point_places.times(self.points), self.Tp, out=times)

    def embedded(self, columns, times):
        """Return the points of these times, shape (n_coordinates, n_points)."""
        return np.ascontiguousarray(columns[times[None] - self.lag[:, None], self.column[:, None]])

    def scale(self):
        """Return a power of two near the largest range of a column: division by it is exact, and squares do
        not overflow.
        """
        low, high = extremes(self.columns)
        return float(power_of_two((high - low).max()))

    def truth(self, target, points):
        """Return the observations of predictions: the target if points are times of the library, the points
        themselves if no target is given, else None."""
        if self.same or (self.given is not None and self.in_library):
            return target
        return points if self.given is None else None

    def observed(self):
        """Return the observations of predictions, shape (n_points, n_targets); NaN where unknown."""
        truth, times = self.truth(self.target, self.point_columns[:, :1]), self.points + self.Tp
        if truth is None:
            return np.full((len(times), self.target.shape[1]), np.nan)
        return values_at(truth, times[:, None])

    @functools.cached_property
    def inputs(self):
        """Series of the search, a dict by name; equal series are included once."""
        found = {"library": self.columns}
        if self.masked is not self.columns:
            found["masked"] = self.masked
        if not self.same:
            found["points"] = self.point_columns
        return found

    @functools.cached_property
    def input_views(self):
        """The `inputs`, copied to the default space."""
        return {name: pk.copy_of(array) for name, array in self.inputs.items()}

    @functools.cached_property
    def summarised(self):
        """The library on the default space, with its summary."""
        return Columns(self.input_views["library"])

    def neighbours(self):
        """Return distances of all points' neighbours and their rows of the embedding, on the host."""

        def compute(distances, times):
            out = pk.empty(times.shape), pk.empty(times.shape, np.int64)
            shift, width = self.front if self.places.plain else 0, self.columns.shape[1]
            summary = self.summarised.summary
            launch(times.shape, point_kernels.store_neighbour, width, shift, summary, distances, times, *out)
            return out

        distances, rows = (on_the_host(one)[self.rows] for one in self._planned("knn", (), compute))
        if not self.places.plain:
            rows = np.where(rows >= 0, self.places.times(rows) - self.front, -1)
        return distances, rows

    def predict_few(self, space):
        """Predict a short complete series in one launch.

        Returns predictions, observations, variances, times and rho.
        """
        out = on_the_host(plans.run_planned(self.short, [self.columns], self._simplex_of_few, space))
        predicted, variance, observed = out[:-1].reshape(3, -1)
        return predicted, observed, variance, self.times, float(out[-1])

    def _simplex_of_few(self, library):
        """Predict by one team, whose members have the neighbours in registers."""
        out = pk.empty(3 * len(self.points) + 1)
        launch(
            pk.TeamPolicy(1, SUMMARY_TEAM, scratch_bytes=pk.scratch_bytes((self.n_times, self.dtype))),
            point_kernels.simplex_of_few,
            pk.static(self.k),
            pk.static(self.E),
            self.tau,
            self.Tp,
            self.radius,
            self._least(),
            max(int(self.candidates[0]), self.first),
            int(self.candidates[-1]) + 1,
            pk.empty(1, self.dtype),
            library.reshape(-1),
            out,
        )
        return out

    def _least(self):
        """Return the largest variation of constant predictions by rounding, as a share of the target's."""
        return NO_VARIATION * float(np.finfo(self.dtype).eps)

    def predictions(self):
        """Return predictions, observations, variances and rho of all targets; without the axis of targets if
        there is a single one."""
        out = self._planned("simplex", () if self.given is None else (self.target,), self.projected)
        observed, still = self.observed(), self.still()  # on the host, while the kernels run
        predicted, variance, rho = self.unpacked(out)
        rho = np.full(len(rho), np.nan) if still else rho
        if self.several:
            return predicted, observed, variance, rho
        return predicted[:, 0], observed[:, 0], variance[:, 0], float(rho[0])

    def _planned(self, what, more, compute):
        """Search, and run `compute` on distances, times and the arrays `more`. The launches are stored and
        reused for the next call of the same form, unless they depend on the data."""

        def run(*views):
            self.input_views = dict(zip(self.inputs, views))
            return compute(*self.search(self.k), *views[len(self.inputs) :])

        arrays, sorts = (*self.inputs.values(), *more), self._sorts(self.k)
        if not sorts and self._tree_may_serve():
            return run(*map(pk.copy_of, arrays))
        # the kernel for sorted candidates takes the number of known ones
        form = what, self.same, self.form, len(self.valid) if sorts else None
        return plans.run_planned(form, arrays, run)

    def projected(self, distances, times, target=None):
        """Return predictions of targets from the neighbours of all points, variances, and rho of each target,
        one vector to be split by `unpacked`.

        target : View or ndarray, shape (n_times, n_targets); the library's first column if None
        """
        n, n_targets = distances.shape[0], 1 if target is None else target.shape[1]
        of = self.summarised if target is None else Columns(target)
        out = pk.empty((2 * n + 1) * n_targets)
        launch(
            (1, n) if n_targets == 1 else (n, n_targets),
            point_kernels.project,
            pk.static(int(n_targets == 1)),
            n_targets,
            self.Tp,
            distances,
            times,
            of.summary,
            of.values,
            out,
        )
        observed = self.truth(of.values, self.input_views.get("points"))
        if observed is None:  # the target is not observed at the times of these points
            pk.deep_copy(out[2 * n * n_targets :], math.nan)
        else:
            self._correlate(times, observed, n_targets, out)
        return out

    def unpacked(self, out):
        """Return predictions and variances, shape (n_points, n_targets), and rho."""
        n, found = self.n_span, on_the_host(out)
        size = found.size // (2 * n + 1) * n
        both = found[: 2 * size].reshape(2, n, -1)[:, self.rows]
        return *both, found[2 * size :]

    def _correlate(self, times, observed, n_targets, out):
        """Store rho of each target in `out`, after predictions and variances."""
        n, asked = self.n_span, times
        if not self.every_row:
            asked = np.zeros((n, 1), np.int32)
            asked[self.rows] = 1
            asked = pk.copy_of(asked)
        begin = self.first + self.Tp
        first, last = max(-begin, 0), min(n, observed.shape[0] - begin)  # points with an observation
        single, columns = as_vector(observed)
        launch(
            pk.TeamPolicy(n_targets, CORRELATING),
            point_kernels.correlate_points,
            self._least(),
            max(last - first, 0),
            pk.static(1) if n_targets == 1 else n_targets,
            single,
            pk.static(int(self.every_row)),
            asked[first:],
            columns[begin + first :],
            out[first * n_targets :],
            out[2 * n * n_targets :],
        )

    def search(self, k):
        """Return distances, in units of `summarised.scale`, and times of the k nearest candidates of the
        points at times first, first + 1, ...; views of the default space.
        """
        if self._sorts(k):
            return self._search_line(k)
        return self._search_tree(k) or self._search_all(k)

    def _sorts(self, k):
        """Return True if points have one coordinate, and are so many that a sort costs less than all
        distances."""
        n, pairs = len(self.valid), len(self.valid) * len(self.points)
        return len(self.lag) == 1 and k <= FEW and n > SORTED and pairs > PAIRS * pk.concurrency()

    def _tree_may_serve(self):
        """Return True if a k-d tree on the host may be faster: for float64, on a space in host memory."""
        if not tree.may_serve(len(self.valid), len(self.points), len(self.lag)):
            return False
        return pk.default_space().memory == "host" and self.dtype == np.float64

    def _search_line(self, k):
        """Search points of one coordinate by a sort of the candidates, with NaN at all other times."""
        lines, begin = self._lines(), int(self.candidates[0])
        values = lines.source[begin : int(self.candidates[-1]) + 1]
        distances, times = self._empty(k)
        launch(
            self.n_span,
            point_kernels.nearest_on_line,
            k,
            len(self.valid),
            self.radius,
            begin,
            self.first,
            values,
            pk.argsort(values),
            lines.points,
            distances,
            times,
        )
        return distances, times

    def _lines(self):
        """Return candidates and points as Lines, the input of the kernels."""
        given = self.summarised
        values, points = (self.input_views.get(name, given.values) for name in ("masked", "points"))
        return Lines(given, values, points, self.column, self.lag, self.dtype)

    def _empty(self, k):
        """Return uninitialised views for the distances and times of k neighbours of all points."""
        shape = self.n_span, k
        return pk.empty(shape, self.dtype), pk.empty(shape, np.int32)

    def _search_tree(self, k):
        """Search by a k-d tree on the host if it is measured to be faster; else return None."""
        if not self._tree_may_serve():
            return None
        n_threads, asked, lines = pk.default_space().n_threads, self.points[self.known], self._lines()
        candidates = lines.source.to_numpy()[lines.offset(lines.stride)[:, None] + self.valid]
        points = lines.points.to_numpy()[lines.offset(lines.point_stride)[:, None] + asked]
        found = tree.build(candidates, points, k, n_threads, lambda n: self._search_some(n, k))
        if found is None:
            return None
        of = candidates, points, self.valid, asked, self.radius
        shape, rows = (self.n_span, k), asked - self.first
        distances, times = np.full(shape, np.inf), np.full(shape, -1, np.int32)
        distances[rows], times[rows] = tree.nearest(found, *of, k, n_threads)
        return pk.copy_of(distances), pk.copy_of(times)

    def _search_some(self, n, k):
        """Search by all distances for the first n points only, to measure the time."""
        some = copy.copy(self)
        some.n_span = n
        some._search_all(k)
        pk.fence()

    def _search_all(self, k):
        """Search by the distances of every point from every candidate."""
        n_dims, candidates = len(self.lag), self.candidates[None]
        library, last = Library(self._lines(), 1, candidates), self.first + self.n_span
        library.arrange(np.zeros(1, int), candidates)
        asked = np.array([n_dims]), np.array([k]), self.radius, self.n_span
        search = Search(library, *asked)
        distances, times = self._empty(k)
        for begin, end in search.parts(self.first, last):
            part = slice(begin - self.first, end - self.first)
            launch(
                search.policy(-(-(end - begin) // kernels.GROUP)),
                kernels.nearest,
                n_dims,
                search.room,
                k,
                begin,
                end,
                library.record,
                search.asked,
                search.found,
                distances[part],
                times[part],
            )
        return distances, times


def problem_of(library, names, target, points, E, window, dtype):
    """Return the Problem of these arguments. Complete series of one length and form share their checks, for
    loops over many of them."""
    plain = type(library) is np.ndarray and library.ndim == 1 and library.dtype.kind == "f" and library.size
    alone = names is target is points is None and PLAIN.issuperset(map(type, (E, dtype, *window)))
    if plain and alone and window[4:] == (None,) * 4:
        low, high = float(np.minimum.reduce(library)), float(np.maximum.reduce(library))
        if -LARGEST <= low and high <= LARGEST and high - low >= SMALLEST:
            shared = _of_length(library.size, E, window, dtype)
            if shared is not None:
                return shared.of(library.astype(np.float64, copy=False)[:, None])
    return Problem(library, names, target, points, E, window, dtype)


@functools.lru_cache(maxsize=64)
def _of_length(n_times, *form):
    """Return the Problem of a complete series of n_times values; None if it would warn."""
    with warnings.catch_warnings(record=True) as caught:
        found = Problem(np.arange(float(n_times)), None, None, None, *form)
    if found.k <= MOST_KEPT and n_times <= SHORT:
        found.short = found
    return None if caught or found.parts or found.times is None else found


def _run_on(times):
    """Return True if ascending times are consecutive."""
    return not len(times) or times[-1] - times[0] == len(times) - 1
