"""Test docs/architecture.md: the functions of its table are called, in that order, for the kernel that the
page shows."""

import json
import re
from pathlib import Path

from ..processes import python

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()

WATCHED = """
import json, sys
from pathlib import Path

called = {{}}

def watch(frame, event, argument):
    file = frame.f_code.co_filename
    if event == "call" and file.startswith({root!r}):
        called.setdefault((frame.f_code.co_name, str(Path(file).relative_to({root!r}))), len(called))

sys.path.insert(0, {root!r})
import portable
from portable.core.machines.cpu import stop
stop.add_symbols()  # whose code is loaded before that of any kernel
sys.setprofile(watch)
exec(compile(open({program!r}).read(), {program!r}, "exec"))
sys.setprofile(None)
print(json.dumps([list(key) for key in called]))
"""


def test_the_way_of_axpy_is_as_the_page_says(tmp_path, monkeypatch):
    monkeypatch.setenv("PORTABLE_CACHE", str(tmp_path / "cache"))
    program = tmp_path / "program.py"
    program.write_text(re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1])
    out = python("-c", WATCHED.format(root=str(ROOT), program=str(program))).stdout
    called = [tuple(pair) for pair in json.loads(out)]
    rows = re.findall(r"^\| \d+ \| `(\w+)` \| `([\w/.]+)` \|", PAGE, re.MULTILINE)
    assert len(rows) == 18 and [row for row in rows if row not in called] == []
    assert sorted(rows, key=called.index) == rows
