"""Clusters of ten shapes: `shapes.py` has them, and the program that shows all."""

import pytest

from portable.models.mixture.fitting import agreement

from .shapes import found_in, shapes


def test_there_are_ten_shapes():
    made = list(shapes(300))
    assert len(made) == 10 and [shape.k for shape in made] == [4, 3, 4, 3, 3, 3, 3, 6, 2, 1]
    for shape in made:
        assert len(shape.X) == len(shape.labels) and (shape.labels >= -1).all()


@pytest.mark.slow
def test_the_right_number_of_clusters_in_eight_of_ten():
    """t and noise among them; their labels agree with the truth."""
    right, rand = [], {}
    for shape in shapes(900):
        labels, _ = found_in(shape)
        rand[shape.name] = agreement(labels, shape.labels)
        right += [shape.name] * (len(set(labels.tolist()) - {-1}) == shape.k)
    assert len(right) >= 8 and {"t", "noise"} <= {*right}, right
    assert min(rand["t"], rand["noise"], rand["unequal"]) > 0.85, rand
