"""Run mypy and pyright on programs that are right and on programs that are wrong."""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RIGHT, WRONG = HERE / "right.py", HERE / "wrong.py"
# Packages that the methods import but no annotation names: not read, which would take ten times as long.
UNREAD = """
anndata arviz_base arviz_stats bokeh dask dask_jobqueue distributed flowutils h5py jinja2 matplotlib
pandas polars pyarrow rich scipy sklearn xarray
""".split()


# Settings of --strict for a module, which mypy itself does not apply
STRICT = """
check_untyped_defs disallow_any_generics disallow_incomplete_defs disallow_subclassing_any
disallow_untyped_calls disallow_untyped_decorators disallow_untyped_defs extra_checks
no_implicit_reexport strict_equality warn_return_any warn_unused_ignores
""".split()


def mypy(folder, *files):
    """Return the lines with errors by mypy, file by file, of the given files only, not of their imports.

    The check is strict except for pages, whose kernels are not annotated, like those of most users; a page
    may also redefine a name. One process checks all, since it reads NumPy's types first.
    """
    pytest.importorskip("mypy", reason="mypy is not installed")
    pages = ",".join(Path(file).stem for file in files if Path(file).stem.startswith("page_"))
    (folder / "mypy.ini").write_text(
        f"[mypy]\n[mypy-{','.join(f'{name}.*' for name in UNREAD)}]\nfollow_imports = skip\n"
        f"[mypy-{pages}]\nallow_redefinition = True\ndisable_error_code = import-untyped\n"
        + "".join(f"{option} = False\n" for option in STRICT)
    )
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--follow-imports",
        "silent",
        "--no-color-output",
        "--cache-dir",
        str(folder / "mypy"),
        *map(str, files),
    ]
    return errors(command, r"^(.+?):(\d+): error: (.*)", folder)


def pyright(folder, *files):
    """Return the lines with errors by pyright."""
    if importlib.util.find_spec("pyright") is None:
        pytest.skip("pyright is not installed: pip install 'pyright[nodejs]'")
    (folder / "pyrightconfig.json").write_text(
        f'{{"extraPaths": ["{together(folder)}"], "pythonVersion": "3.11"}}'
    )
    command = [
        sys.executable,
        *f"-m pyright -p {folder} --pythonpath".split(),
        sys.executable,
        *map(str, files),
    ]
    return errors(command, r"^\s*(/.+?):(\d+):\d+ - error: (.*)", folder)


def together(folder):
    """Make a folder with the package as it is installed, including models and roofline."""
    made = folder / "together" / "portable"
    if not made.exists():
        made.mkdir(parents=True)
        for path in (*(ROOT / "portable").iterdir(), ROOT / "models", ROOT / "roofline"):
            (made / path.name).symlink_to(path)
    return made.parent


def errors(command, pattern, folder):
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=folder,
        env={"PATH": "", "HOME": str(folder), "MYPYPATH": str(together(folder))},
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = {}
    for path, line, what in re.findall(pattern, done.stdout, re.MULTILINE):
        found.setdefault(Path(path).name, {}).setdefault(int(line), what)
    return found


def marked(checker):
    """Return the lines of wrong.py that this checker must refuse."""
    marks = (
        (k, re.search(r"# wrong(?:: (\w+))?$", line))
        for k, line in enumerate(WRONG.read_text().splitlines(), 1)
    )
    return {k for k, mark in marks if mark and mark[1] in (None, checker)}


PAGES = [
    ROOT / "README.md",
    *(
        ROOT / "docs" / f"{page}.md"
        for page in (
            "tutorial kernels spaces checked numba backends hawkes tmap roofline edm resampling "
            "state-space mixture coming-from/scikit-learn cytometry clusters"
        ).split()
    ),
]


def written(pages, folder):
    """Write the Python code of pages, to a file for each."""
    files = []
    for page in pages:
        files.append(folder / f"page_{page.stem.lower().replace('-', '_')}.py")
        files[-1].write_text(
            "\n".join(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL))
        )
        assert files[-1].stat().st_size
    return files


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_right_programs_and_pages_raise_nothing_and_each_wrong_line_an_error(checker, tmp_path):
    files = [shutil.copy(path, tmp_path) for path in (RIGHT, WRONG)]
    found = checker(tmp_path, *files, *(written(PAGES, tmp_path) if checker is mypy else ()))
    wrong = found.pop("wrong.py")
    assert found == {}
    assert set(wrong) == marked(checker.__name__), {
        k: wrong.get(k) for k in set(wrong) ^ marked(checker.__name__)
    }


def test_right_programs_run():
    from . import right

    right.main()
