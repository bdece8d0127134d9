"""`python -m tests.models.resampling.golden` prints the table GOLDEN of test_schemes.py, by plain Python."""

import numpy as np

import portable as pk

from . import reference
from .cases import SCHEMES, digest, many, many_logs
from .test_schemes import STEP


def draw(scheme, options, w, v):
    return np.array(getattr(reference, scheme.__name__)(w.tolist(), len(w), v, STEP << 32, **options))


def exponentials(log_w):
    """Return weights relative to the largest, by the layer's exponential, which has the same bits on every
    space.
    """
    return np.array([pk.exp(float(v)) for v in log_w.astype(float) - float(log_w.max())])


if __name__ == "__main__":
    for scheme, options in SCHEMES:
        weights = digest([draw(scheme, options, w, v) for v, w in enumerate(many())])
        logs = digest([draw(scheme, options, exponentials(w), v) for v, w in enumerate(many_logs())])
        print(f'    "{scheme.__name__}": ("{weights}", "{logs}"),')
