"""Empirical dynamic modelling."""
from .neighbours import Neighbours, Prediction, knn, simplex
from .cross import cross_map
