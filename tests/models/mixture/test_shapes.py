"""Test clusters of the shapes in `shapes.py`."""

import pytest

from portable.models.mixture.fitting import agreement

from .shapes import found_in, shapes


@pytest.mark.slow
@pytest.mark.parametrize("name", ["t", "noise"])
def test_the_right_number_of_clusters(name):
    """Two shapes that normal components divide into pieces have the right number; `python -m
    tests.models.mixture.shapes` shows ten."""
    shape = next(shape for shape in shapes(600) if shape.name == name)
    labels, _ = found_in(shape, n_folds=2, most=4)
    assert len(set(labels.tolist()) - {-1}) == shape.k
    assert agreement(labels, shape.labels) > 0.85
