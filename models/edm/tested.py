"""Results of a test of all pairs of a cross map, and p-values adjusted for their number."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np

from ..shared import Array, ArrayLike, Result, as_numbers, check_choice, check_share, refuse
from . import frames

Adjustment: TypeAlias = Literal["bh", "by"]
REASONS = (
    "",
    "library and target are the same series",
    "the library does not vary",
    "the target does not vary",
    "the predictions do not vary",
    "no surrogate has a skill",
)
TESTED, SAME, STILL_LIBRARY, STILL_TARGET, STILL_PREDICTIONS, NO_SURROGATE = range(len(REASONS))


class CrossMapTest(Result):
    """Skill of every pair, and the number of surrogates of the target with at least that skill.

    Attributes
    ----------
    rho : ndarray, shape (n_libraries, n_targets)
        As from `cross_map`.
    p_values : ndarray, shape (n_libraries, n_targets)
        NaN for pairs that cannot be tested; `reasons` has the reason.
    n_better, n_tried : ndarray of int, shape (n_libraries, n_targets)
        Number of surrogates with at least the target's skill, and number of those with a finite skill.
    reasons : ndarray of int8, shape (n_libraries, n_targets)
        Indices in `REASONS`; 0 for pairs with a p-value.
    libraries, targets : list of str
    surrogate : str
        The kinds of the surrogates in words.
    n_surrogates, stop_after : int
    n_max : int
        Surrogates of the pairs that received more than `n_surrogates`; `n_surrogates` if there are none.
    E : ndarray of int, shape (n_libraries, n_targets), or None
        The embedding dimension of each pair.
    """

    rho: Array
    p_values: Array
    n_better: Array
    n_tried: Array
    reasons: Array
    libraries: list[str]
    targets: list[str]
    surrogate: str
    n_surrogates: int
    stop_after: int
    n_max: int
    E: Array | None = None

    @property
    def n_tests(self) -> int:
        """Number of pairs with a p-value."""
        return int(np.isfinite(self.p_values).sum())

    def adjusted(self, method: Adjustment = "bh") -> Array:
        """Return p-values adjusted for the number of tests, see `adjust`.

        Parameters
        ----------
        method : {"bh", "by"}
            See `adjust`.

        Returns
        -------
        ndarray, shape (n_libraries, n_targets)
            NaN for pairs that were not tested.

        Raises
        ------
        InputError
            There is no such method.
        """
        return adjust(self.p_values, method)

    def rejected(self, fdr: float = 0.05, method: Adjustment = "bh") -> Array:
        """Return True for the pairs whose skill exceeds that of surrogates, at a false discovery rate `fdr`.

        Parameters
        ----------
        fdr : float, default 0.05
            The false discovery rate, between 0 and 1.
        method : {"bh", "by"}
            See `adjust`.

        Returns
        -------
        ndarray of bool, shape (n_libraries, n_targets)

        Raises
        ------
        InputError, DTypeError, FiniteError
            `fdr` is no share, or there is no such method.
        """
        return self.adjusted(method) <= check_share(fdr, "fdr")

    def n_needed(self, fdr: float = 0.05, method: Adjustment = "bh") -> int:
        """Return the number of pairs that must have the smallest possible p-value for any to be rejected.

        Parameters
        ----------
        fdr : float, default 0.05
            The false discovery rate, between 0 and 1.
        method : {"bh", "by"}
            See `adjust`.

        Returns
        -------
        int

        Raises
        ------
        InputError, DTypeError, FiniteError
            `fdr` is no share, or there is no such method.
        """
        check_share(fdr, "fdr")
        tests = self.n_tests * _harmonic(self.n_tests, method)
        return int(np.ceil(tests / (fdr * (self.n_max + 1)) * (1 - 1e-12)))

    def unmatched(self) -> Array:
        """Return True for the pairs that no surrogate has matched, whose p-value is the smallest possible."""
        return (self.reasons == TESTED) & (self.n_better == 0)

    def n_wanted(self, fdr: float = 0.05, method: Adjustment = "bh") -> int:
        """Return the number of surrogates at which all unmatched pairs are rejected if they remain unmatched.

        Parameters
        ----------
        fdr : float, default 0.05
            The false discovery rate, between 0 and 1.
        method : {"bh", "by"}
            See `adjust`.

        Returns
        -------
        int
            0 if they are already rejected, or there is no such pair.

        Raises
        ------
        InputError, DTypeError, FiniteError
            `fdr` is no share, or there is no such method.
        """
        unmatched = self.unmatched()
        if not (unmatched & ~self.rejected(fdr, method)).any():
            return 0
        tests = self.n_tests * _harmonic(self.n_tests, method)
        return int(np.ceil(tests / (fdr * unmatched.sum()) * (1 - 1e-12))) - 1

    def drivers(self, fdr: float = 0.05, method: Adjustment = "bh") -> list[str]:
        """Return a sentence "Y drives X" for each rejected pair, the largest skill first.

        The history of a driven series contains information about its driver: if library X predicts target Y
        better than surrogates of Y, Y drives X.

        Parameters
        ----------
        fdr : float, default 0.05
            The false discovery rate, between 0 and 1.
        method : {"bh", "by"}
            See `adjust`.

        Returns
        -------
        list of str

        Raises
        ------
        InputError, DTypeError, FiniteError
            `fdr` is no share, or there is no such method.
        """
        q = self.adjusted(method)
        rejected = np.argwhere(self.rejected(fdr, method))
        order = np.argsort([-self.rho[i, j] for i, j in rejected], kind="stable")
        return [
            f"{self.targets[j]} drives {self.libraries[i]}: its skill from {self.libraries[i]}'s history is "
            f"{self.rho[i, j]:.4f}"
            + (f" with E = {self.E[i, j]}" if self.E is not None else "")
            + f", q = {q[i, j]:.3g}"
            for i, j in rejected[order].tolist()
        ]

    def summary(self, fdr: float = 0.05, method: Adjustment = "bh") -> str:
        """Summarise the test: tests, rejections, untested pairs with reasons, and surrogates needed for more.

        Parameters
        ----------
        fdr : float, default 0.05
            The false discovery rate, between 0 and 1.
        method : {"bh", "by"}
            See `adjust`.

        Returns
        -------
        str
            Lines of text.

        Raises
        ------
        InputError, DTypeError, FiniteError
            `fdr` is no share, or there is no such method.
        """
        rejected = int(self.rejected(fdr, method).sum())
        name = {"bh": "Benjamini-Hochberg", "by": "Benjamini-Yekutieli"}[method]
        given_up = self.stop_after <= self.n_surrogates
        lines = [
            f"{self.n_tests} pairs tested against {self.n_surrogates} {self.surrogate} surrogates, "
            "one-sided"
            + (f"; given up after {self.stop_after} did as well" if given_up else "")
            + (
                f"; {int((self.n_tried > self.n_surrogates).sum())} that none of these matched went on "
                f"to {self.n_max}"
                if self.n_max > self.n_surrogates
                else ""
            ),
            f"{rejected} rejected with a false discovery rate of {fdr:g} ({name}); "
            f"{int((self.p_values <= fdr).sum())} have p <= {fdr:g}, {self.n_tests * fdr:.4g} are "
            "expected by chance",
        ]
        counts = np.bincount(self.reasons.ravel())
        lines += [f"{n} not tested: {REASONS[code]}" for code, n in enumerate(counts) if code and n]
        least, at_least = 1.0 / (self.n_max + 1), int(self.unmatched().sum())
        needed = self.n_needed(fdr, method)
        if not 0 < needed <= self.n_tests:
            lines.append(
                f"nothing could have been rejected: p is at least {least:.4g}, and even "
                f"{self.n_tests} of these do not pass"
            )
        elif wanted := self.n_wanted(fdr, method):
            lines.append(
                f"p is at least {least:.4g}: {needed} pairs with it are "
                f"needed for a rejection, no surrogate matched {at_least}; max_surrogates={wanted} "
                "could tell more"
            )
        return "\n".join(lines)

    def to_xarray(self, method: Adjustment = "bh") -> Any:
        """Return all results as an xarray Dataset with the names of libraries and targets.

        Parameters
        ----------
        method : {"bh", "by"}
            See `adjust`.

        Returns
        -------
        xarray.Dataset of dimensions library and target
            Variables rho, p, q (adjusted), n_tried and reason.

        Raises
        ------
        InputError
            xarray is not installed, or there is no such method.
        """
        dataset = frames.named_array(self.rho, self.libraries, self.targets).to_dataset()
        for name, values in self._values(method).items():
            dataset[name] = ("library", "target"), values
        names = "surrogate", "n_surrogates", "stop_after", "n_max"
        dataset.attrs = {name: getattr(self, name) for name in names}
        return dataset

    def to_pandas(self, method: Adjustment = "bh") -> Any:
        """Return a row for each pair: library, target, rho, p, q, n_tried, reason; the smallest q first.

        Parameters
        ----------
        method : {"bh", "by"}
            See `adjust`.

        Returns
        -------
        pandas.DataFrame, n_libraries * n_targets rows
            q is the adjusted p.

        Raises
        ------
        InputError
            pandas is not installed, or there is no such method.
        """
        n_libraries, n_targets = self.rho.shape
        names = np.repeat(self.libraries, n_targets), np.tile(self.targets, n_libraries)
        values = {name: own.ravel() for name, own in self._values(method).items()}
        table = frames.make_table(dict(zip(("library", "target"), names)) | values)
        table["reason"] = np.array(REASONS)[table.reason]
        return table.sort_values(["q", "p"], kind="stable", ignore_index=True)

    def _values(self, method):
        """Return the columns of tables, by name: the numbers of each pair."""
        values = {"rho": self.rho, "p": self.p_values, "q": self.adjusted(method)}
        return values | {"n_tried": self.n_tried, "reason": self.reasons}


def _harmonic(n, method):
    check_choice(method, "method", Adjustment)
    return float((1.0 / np.arange(1, n + 1)).sum()) if method == "by" else 1.0


def adjust(p_values: ArrayLike, method: Adjustment = "bh") -> Array:
    """Adjust p-values for multiple testing: rejecting those of at most q has a false discovery rate of q.

    Parameters
    ----------
    p_values : array-like, of any shape
        NaN is not a test, and is returned unchanged.
    method : {"bh", "by"}
        "bh" (Benjamini and Hochberg) is valid for independent or positively dependent tests, as are most
        pairs with a common target; "by" (Benjamini and Yekutieli) for any dependence, with fewer rejections.

    Returns
    -------
    ndarray of float64, of the same shape

    Raises
    ------
    InputError
        A p-value outside [0, 1].

    References
    ----------
    Y. Benjamini, Y. Hochberg: J. R. Stat. Soc. B 57 (1995), 289; Y. Benjamini, D. Yekutieli: Ann. Stat. 29
    (2001), 1165.
    """
    p = as_numbers(p_values, "p_values").astype(np.float64)
    known = np.flatnonzero(~np.isnan(p.ravel()))
    values = p.ravel()[known]
    refuse((p < 0) | (p > 1), p, "p_values", "numbers from 0 to 1")
    order = np.argsort(values, kind="stable")
    n = len(values)
    scaled = values[order] * n * _harmonic(n, method) / np.arange(1, n + 1)
    out = np.full(p.size, np.nan)
    out[known[order]] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return out.reshape(p.shape)
