"""Empirical dynamic modelling."""
from .cross import cross_map
from .neighbours import Neighbours, Prediction, knn, simplex
from .sweeps import Convergence, Dimensions, ccm, embedding_dimension
from .local import SMap, smap
