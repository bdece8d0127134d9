"""Page on the reproduction of a paper: its tables and figures, printed values next to computed ones, as HTML.

A program of this folder has a subclass of `Study` with a method for each table and figure; `main` runs the
requested ones at one of four sizes, and rewrites the page after each, so that it is complete up to there if a
long run is stopped.
"""

from __future__ import annotations

import base64
import datetime
import importlib.util
import inspect
import io
import os
import platform
import time
import timeit
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import portable as pk
from portable.errors import InputError

from portable.models.shared import command
from portable.models.shared.checks import check_choice, check_outputs
from portable.models.shared.extras import new_figure as new_figure
from portable.models.shared.files import write

NOT_RUN = "not run here"
_SAMPLED = 80  # dots per inch of figures with many points


@dataclass(frozen=True)
class Compared:
    """A value that is printed in a paper, and the computed one.

    Attributes
    ----------
    what : str
    printed : float or None
        None if the paper has no such value.
    ours : float or None
        None if it was not computed; `note` has the reason.
    unit, note : str
    """

    what: str
    printed: float | None
    ours: float | None
    unit: str = ""
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Ratio of the computed value to the printed one."""
        return self.ours / self.printed if self.printed and self.ours is not None else None

    def cells(self) -> tuple[str, ...]:
        """Return the cells of a row of a table."""

        def cell_text(value, missing):
            return missing if value is None else number(value) + f" {self.unit}" * bool(self.unit)

        ratio = "" if self.ratio is None else f"{self.ratio:.3g}"
        return self.what, cell_text(self.printed, ""), cell_text(self.ours, NOT_RUN), ratio, self.note

    def __str__(self) -> str:
        what, printed, ours, ratio, note = self.cells()
        text = f"  {what}: printed {printed or '-'}, ours {ours}"
        return text + f", ratio {ratio}" * bool(ratio) + f" ({note})" * bool(note)


def number(value: object) -> str:
    """Return a number as a string with four digits, integers with all digits; strings unchanged."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, float) and not value.is_integer() or abs(value) >= 1e9:
        return f"{value:.4g}" if abs(value) < 1e5 else f"{value:.6g}"
    return f"{int(value):,}"


class Page:
    """A page of parts in the order in which they are added.

    Parameters
    ----------
    title, source : str
        Title of the page, and reference of the paper.
    facts : str
        The command, versions and machine of the run.
    """

    def __init__(self, title: str, source: str, facts: str) -> None:
        self.title, self.source, self.facts = title, source, facts
        self.compared: list[Compared] = []
        self.parts: list[dict] = []

    def section(self, heading: str, *sentences: str) -> None:
        """Begin a section."""
        self.parts.append({"heading": heading})
        self.add_paragraph(*sentences)

    def add_paragraph(self, *sentences: str) -> None:
        """Add a paragraph."""
        if sentences:
            self.parts.append({"text": " ".join(sentences)})

    def compare(self, caption: str, rows: Iterable[Compared]) -> None:
        """Add a table of printed values, computed values, and their ratios."""
        rows, names = list(rows), ("", "printed", "ours", "ours / printed", "")
        self.compared += rows
        self.table(caption, names, [row.cells() for row in rows], words=(4,))

    def table(
        self, caption: str, names: Sequence[str], rows: Iterable[Sequence], words: Sequence[int] = ()
    ) -> None:
        """Add a table; numbers are written by `number`, columns in `words` are set as text."""
        cells = [list(map(number, row)) for row in rows]
        self.parts.append({"caption": caption, "names": names, "rows": cells, "words": words})

    def draw(self, figure, caption: str, *, sampled: bool = False) -> None:
        """Add a matplotlib Figure, in lines or (`sampled`) in dots."""
        import matplotlib

        # WebP is a fifth as large as PNG, for 20,000 dots
        kind, mime = ("webp", "webp") if sampled else ("svg", "svg+xml")
        made, how = io.BytesIO(), {"dpi": _SAMPLED} if sampled else {"metadata": {"Date": None}}
        with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "page"}):
            figure.savefig(made, format=kind, **how)
        data = base64.b64encode(made.getvalue()).decode()
        self.parts.append({"caption": caption, "image": f"data:image/{mime};base64,{data}"})

    def text(self) -> str:
        """Return the page."""
        from jinja2 import Template  # 30 ms

        text = Path(__file__).with_suffix(".html").read_text()
        return Template(text, autoescape=True, trim_blocks=True).render(page=self)


class Study:
    """Settings and page of the sections on one paper.

    Class attributes of a family: `title`, `source`, `settings` (by name of a size), `sections` (heading by
    method). Keyword-only arguments are options of the command line.

    Parameters
    ----------
    size : {"tiny", "quick", "middle", "full"}
    space : str or Space, optional
    data : path, optional
        Folder of real data; PORTABLE_DATA if not given.
    command : str
        Command of the run, for the page.

    Attributes
    ----------
    size : object
        The settings of that size.
    page : Page
    on_gpu : bool
        True if the space has separate memory.
    """

    title = source = ""
    settings: dict = {}
    sections: dict[str, str] = {}

    def __init__(
        self,
        size: str = "quick",
        space: object = None,
        data: str | os.PathLike | None = None,
        command: str = "",
    ) -> None:
        check_choice(size, "size", self.settings)
        self.size, self.size_name = self.settings[size], size
        self.space = pk.default_space() if space is None else space
        folder = data or os.environ.get("PORTABLE_DATA")
        self.data = None if folder is None else Path(folder)
        if self.data is not None and not self.data.is_dir():
            raise InputError(f"data: '{self.data}' is no folder")
        with pk.use(self.space) as used:
            self.space, threads, self.on_gpu = str(used), pk.concurrency(), used.memory != "host"
        when = datetime.date.today().strftime("%B %Y")
        self.page = Page(
            self.title,
            self.source,
            f"{command or 'Made'}: size '{size}', space '{self.space}' ({threads} at a time) on"
            f" {machine()}, {when}. Times of one machine say little about another's; what needs a machine"
            " that is not here says so.",
        )

    def file(self, *parts: str) -> Path | None:
        """Return the path of a file of real data, or None if it does not exist."""
        path = None if self.data is None else self.data.joinpath(*parts)
        return path if path is not None and path.exists() else None

    def spaces(self) -> list[str]:
        """Return the spaces that are timed: one thread and that of the study; on a GPU only the latter."""
        return [self.space] if self.on_gpu or self.space == "serial" else ["serial", self.space]


def machine() -> str:
    """Return the processor in words."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.processor() or platform.machine()
    return f"{os.cpu_count()} cores of {model}"


def seconds(call: Callable[[], object], repeats: int = 3, space: object = None) -> float:
    """Return the shortest time of `repeats` calls, after one that compiles."""

    def run():
        call()
        pk.fence(space)

    return min(timeit.repeat(run, number=1, repeat=repeats + 1)[1:])


def example(name: str, folder: str = "docs/examples/papers"):
    """Return the module FOLDER/NAME.py of the checkout."""
    path = Path(__file__).parents[2] / folder / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"example_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(study: type[Study], argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line of a study's program, and exit with the code of `command.run`."""
    name = _name(study)
    made = ArgumentParser(prog=f"python docs/papers/{name}.py", description=study.title)
    made.set_defaults(act=lambda options: run(study, options) and None, size="middle")
    size = made.add_mutually_exclusive_group()
    for one, words in (
        ("tiny", "some seconds: as the tests run it"),
        ("quick", "under a minute on two cores"),
        ("full", "as printed, however long it takes"),
    ):
        size.add_argument(f"--{one}", dest="size", action="store_const", const=one, help=words)
    own = [p.name for p in inspect.signature(study).parameters.values() if p.kind is p.KEYWORD_ONLY]
    command.add(made, study, *own)
    words = "real data, of papers that have any (default: PORTABLE_DATA); else they are simulated"
    for flag, how in {
        "--space": {"metavar": "NAME", "help": "where to compute (default: a GPU, else threads)"},
        "--data": {"metavar": "FOLDER", "help": words},
        "--out": {"metavar": "FILE.html", "default": f"{name}.html", "help": "the page (%(default)s)"},
        "--only": {
            "action": "append",
            "metavar": "SECTION",
            "help": f"one of {', '.join(study.sections)}; may be repeated (default: all)",
        },
    }.items():
        made.add_argument(flag, **how)
    raise SystemExit(command.run(name, made, argv))


def _name(study):
    return Path(inspect.getfile(study)).stem


def run(study: type[Study], options: Namespace) -> Study:
    """Run the sections of a study that the options request.

    Raises
    ------
    InputError
        --only has an unknown section, or the folder of --out does not exist.
    """
    wanted = _checked(study, options.only)
    out = Path(options.out)
    check_outputs(options, "out")
    new_figure()  # raises before the computation if matplotlib is missing
    data = getattr(options, "data", None)
    line = f"python docs/papers/{_name(study)}.py" + f" --{options.size}" * (options.size != "middle")
    line += " --data FOLDER" * bool(data)
    made = study(options.size, options.space, data, line, **command.arguments_of(options, study))
    for name in wanted:
        begin = time.perf_counter()
        made.page.section(study.sections[name])
        getattr(made, name.replace("-", "_"))()
        write(out, made.page.text())
        print(f"{study.sections[name]}: {time.perf_counter() - begin:.1f} s")
    for row in made.page.compared:
        print(row)
    print(f"wrote {out}")
    return made


def _checked(study, only):
    """Return the requested sections, in the order of the paper."""
    for name in only or ():
        check_choice(name, "--only", study.sections)
    return [name for name in study.sections if name in (only or study.sections)]
