"""Implement scikit-learn's protocol of an estimator, without importing it: it need not be installed."""

import inspect
import sys
from typing import Any, Self

from portable.errors import InputError


class Parameters:
    """Methods get_params, set_params, repr and tags, which are derived from the arguments of the subclass's
    __init__."""

    @classmethod
    def _names(cls):
        return sorted(name for name in inspect.signature(cls.__init__).parameters if name != "self")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments of ``__init__``.

        Parameters
        ----------
        deep : ignored

        Returns
        -------
        dict of names and values
        """
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Self:
        """Change arguments of ``__init__``.

        Parameters
        ----------
        **params
            New values by name.

        Returns
        -------
        The estimator itself.

        Raises
        ------
        InputError
            There is no such argument.
        """
        for name, value in params.items():
            if name not in self._names():
                raise InputError(
                    f"Invalid parameter {name!r} for estimator {self}. Valid parameters are:"
                    f" {self._names()!r}."
                )
            setattr(self, name, value)
        return self

    def __repr__(self):
        defaults = inspect.signature(type(self).__init__).parameters
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if value is not defaults[name].default and repr(value) != repr(defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self):
        utils = sys.modules["sklearn.utils"]  # only scikit-learn calls this method
        return utils.Tags(
            estimator_type="density_estimator",
            target_tags=utils.TargetTags(required=False),
            transformer_tags=None,
            classifier_tags=None,
            regressor_tags=None,
            input_tags=utils.InputTags(),
        )


class ConvergenceWarning(UserWarning):
    """EM ended before it had converged."""


def as_in_sklearn(own, name):
    """Return our exception class, or, if scikit-learn is imported, a subclass of ours and of scikit-learn's
    class of that name, which scikit-learn's callers expect."""
    exceptions = sys.modules.get("sklearn.exceptions")
    if exceptions is None:
        return own
    return type(name, (own, getattr(exceptions, name)), {"__module__": __name__})
