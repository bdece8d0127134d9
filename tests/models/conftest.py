"""Models in plain Python: each test once, not with every parameter, unless PORTABLE_TEST_SPACES asks for the checked space.

There the interpreter watches every access, which takes a hundred times as long; `tests/checked` runs all models so, too.
"""

import os
from pathlib import Path


def pytest_collection_modifyitems(config, items):
    if "checked" in os.environ.get("PORTABLE_TEST_SPACES", ""):
        return
    here, seen, left_out = Path(__file__).parent, set(), []
    for item in items:
        function = getattr(item, "function", None)
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if here in item.path.parents and parameters.get("space") == "checked":
            (left_out.append(item) if function in seen else seen.add(function))
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]
