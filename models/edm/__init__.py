"""Empirical dynamic modelling."""
from .neighbours import Neighbours, Prediction, knn, simplex
