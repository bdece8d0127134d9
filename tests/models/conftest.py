"""Models in plain Python only where PORTABLE_TEST_SPACES asks for the checked space.

There the interpreter watches every access, which takes a hundred times as long; `tests/checked` runs all
models so, once each.
"""

import os
from pathlib import Path


def pytest_collection_modifyitems(config, items):
    if "checked" in os.environ.get("PORTABLE_TEST_SPACES", ""):
        return
    here = Path(__file__).parent
    left_out = [
        item
        for item in items
        if here in item.path.parents
        and getattr(getattr(item, "callspec", None), "params", {}).get("space") == "checked"
    ]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]
