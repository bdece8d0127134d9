"""The contract of backends, and the names of spaces, for backends of other packages."""

from ..core import registry as registry
from . import contract as contract
