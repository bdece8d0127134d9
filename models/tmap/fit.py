"""Maximum likelihood by EM: equations (4) to (7) of `models.tmap`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import portable as pk
from portable.errors import InputError

from . import kernels
from .checks import check_count, check_orders, check_seed
from .model import _TEAMS, TransientMAP, check_type
from .parameters import check_positive
from .runs import Packed
