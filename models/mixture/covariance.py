"""The four kinds of covariances, in scikit-learn's shapes, and the operations of EM on each.

"full": (k, p, p); "tied": (p, p), one for all components; "diag": (k, p) variances; "spherical": (k,)
variances. A factor is P with Sigma^-1 = P P': upper triangular, or the reciprocal roots of variances, in the
same shapes.
"""

from typing import Literal, TypeAlias, get_args

import numpy as np

from portable.errors import InputError

TINY = np.finfo(float).tiny
Covariance: TypeAlias = Literal["full", "tied", "diag", "spherical"]
KINDS = get_args(Covariance)
_NARROWEST, _THINNEST = 1e-12, 1e-8  # see `solid`


def is_diagonal(kind):
    return kind in ("diag", "spherical")


def shape(kind, k, p):
    return {"full": (k, p, p), "tied": (p, p), "diag": (k, p), "spherical": (k,)}[kind]


def equal_covariances(kind, k, variances):
    """Return covariances of k components with the same variances, shape (p,)."""
    return {
        "full": np.tile(np.diag(variances), (k, 1, 1)),
        "tied": np.diag(variances),
        "diag": np.tile(variances, (k, 1)),
        "spherical": np.full(k, variances.mean()),
    }[kind]


def diagonals(matrices):
    """Return diagonals, shape (k, p), of matrices, or of the result of `for_each` for a diagonal kind."""
    return matrices if matrices.ndim == 2 else np.diagonal(matrices, axis1=1, axis2=2)


def squared(kind, away):
    """Return away away' for each row of (k, p), or its diagonal for a diagonal kind."""
    return away * away if is_diagonal(kind) else away[:, :, None] * away[:, None, :]


def mean_of(kind, scatters, counts, extra=0.0, extra_count=0.0):
    """Return covariances from scatters, shape (k, p, p) or (k, p), over counts, shape (k,).

    `extra` and `extra_count`, from a prior, are added once to each covariance: only once in total to a tied
    one.
    """
    if kind == "tied":
        return (extra + scatters.sum(axis=0)) / (extra_count + counts.sum())
    counts = np.maximum(counts + extra_count, TINY)
    if kind == "full":
        return (extra + scatters) / counts[:, None, None]
    variances = (extra + scatters) / counts[:, None]
    return variances if kind == "diag" else variances.mean(axis=1)


def with_diagonal(kind, covariances, value):
    """Return covariances with `value` added to the variances."""
    return covariances + (value if is_diagonal(kind) else value * np.eye(covariances.shape[-1]))


def factors_of(kind, covariances, has_prior=False):
    """Return the factors; raise InputError if a covariance is not positive definite."""
    try:
        if is_diagonal(kind):
            if not (covariances > 0.0).all():
                raise np.linalg.LinAlgError
            return 1.0 / np.sqrt(covariances)
        return np.swapaxes(inverse_of_lower(np.linalg.cholesky(covariances)), -1, -2)
    except np.linalg.LinAlgError as error:
        raise collapsed(has_prior) from error


def collapsed(has_prior):
    """Return the error for a collapsed component."""
    remedy = (
        "Give Prior(scale=) in the points' units, leave columns out that others add up to, or take float64"
        if has_prior
        else "Raise reg_covar, ask for fewer components, or give a prior"
    )
    return InputError(f"a component has collapsed: its covariance is not positive definite. {remedy}")


def raised(kind, covariances, counts, floors):
    """Return covariances whose pivots are at least `floors`, shape (k, p), for components with these counts
    of points; the input itself if no pivot is too small."""
    if kind == "diag":
        return np.maximum(covariances, floors)
    if kind == "spherical":
        return np.maximum(covariances, floors.mean(axis=1))
    if kind == "tied":
        return _raised_pivots(covariances, counts @ floors / max(counts.sum(), TINY))
    return covariances


def _raised_pivots(matrix, floors):
    """Return a matrix whose pivots in Cholesky's factorisation, column by column, are at least `floors`: the
    diagonal grows by the difference."""
    rest, more = np.array(matrix), np.zeros(len(floors))
    for a, least in enumerate(floors):
        more[a] = max(least - rest[a, a], 0.0)
        pivot = max(rest[a, a], least)
        if pivot > 0.0:
            rest[a + 1 :, a + 1 :] -= np.outer(rest[a + 1 :, a], rest[a, a + 1 :]) / pivot
    return matrix + np.diag(more) if more.any() else matrix


def solid(covariances, variances):
    """Return covariances, shape (..., p, p), without degenerate directions: standard deviations are at least
    1e-6 of those of the data, and eigenvalues of the correlation matrix at least 1e-8. Covariances that
    satisfy this are returned unchanged."""
    squares = np.diagonal(covariances, axis1=-2, axis2=-1)
    least = np.maximum(squares, _NARROWEST * variances)
    scales = np.sqrt(least)[..., :, None] * np.sqrt(least)[..., None, :]
    scaled = covariances / scales + (1.0 - squares / least)[..., None] * np.eye(len(variances))
    values, vectors = np.linalg.eigh(scaled)
    if (values[..., 0] >= _THINNEST).all() and (least == squares).all():
        return covariances
    return (vectors * np.maximum(values, _THINNEST)[..., None, :]) @ np.swapaxes(vectors, -1, -2) * scales


def inverse_of_lower(lower):
    """Return inverses of lower triangular matrices, shape (..., p, p), row by row for all at once: there are
    many small ones."""
    inverse = np.zeros_like(lower)
    for a in range(lower.shape[-1]):
        inverse[..., a, a] = 1.0
        inverse[..., a, :a] = -np.einsum("...b,...bc->...c", lower[..., a, :a], inverse[..., :a, :a])
        inverse[..., a, : a + 1] /= lower[..., a, a, None]
    return inverse


def for_each(kind, matrices, k, p):
    """Return a covariance, or a factor, for each component: shape (k, p, p), or (k, p) for the diagonal
    kinds."""
    if kind == "tied":
        return np.broadcast_to(matrices, (k, p, p))
    return np.repeat(matrices[:, None], p, axis=1) if kind == "spherical" else matrices


def log_dets(kind, factors, p):
    """Return log |Sigma| of each covariance, shape (k,); (1,) if tied."""
    if is_diagonal(kind):
        logs = -2.0 * np.log(factors)
        return p * logs if kind == "spherical" else logs.sum(axis=1)
    return -2.0 * np.log(np.diagonal(factors.reshape(-1, p, p), axis1=1, axis2=2)).sum(axis=1)


def traces(kind, factors, matrix):
    """Return tr(matrix Sigma^-1) of each covariance, in the shape of `log_dets`."""
    if kind == "spherical":
        return factors**2 * np.trace(matrix)
    if kind == "diag":
        return factors**2 @ np.diagonal(matrix)
    square = factors.reshape(-1, *matrix.shape)
    return np.einsum("jab,jab->j", square, matrix @ square)


def squares(kind, factors, away):
    """Return away_j' Sigma_j^-1 away_j, shape (k,)."""
    each = for_each(kind, factors, *away.shape)
    whitened = each * away if is_diagonal(kind) else np.einsum("ja,jab->jb", away, each)
    return (whitened**2).sum(axis=1)


def n_parameters(kind, k, p):
    """Return the number of free parameters of the covariances."""
    return {"full": k * p * (p + 1) // 2, "tied": p * (p + 1) // 2, "diag": k * p, "spherical": k}[kind]


def variances(kind, covariances, k, p):
    """Return the variance of each coordinate in each component, shape (k, p)."""
    return diagonals(for_each(kind, covariances, k, p))
