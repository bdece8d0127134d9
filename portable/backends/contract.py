"""The contract of backends by its public name; see core/machines/contract.py."""

from ..core.machines.contract import Allocated, Backend, Launches, Memory, register

__all__ = ["Allocated", "Backend", "Launches", "Memory", "register"]
