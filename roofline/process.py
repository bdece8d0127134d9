"""The processes of `compare --against`: each runs a revision's code and answers requests over a pipe."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from portable.roofline import side
from portable.roofline.revision import HERE

PATIENCE = 5.0  # seconds until a process that does not end is killed


class SideError(RuntimeError):
    """Report that a side raised or died; the message names the side and the reason."""


class SideDied(SideError):
    """Report that a side's process has ended, and its prepared rows are lost."""


class Worker:
    """Run a process that answers in lines; its error stream is kept for a message about its end.

    Parameters
    ----------
    command : list of str
        Arguments of the interpreter.
    tree : Path
        The folder from which `portable`, `models` and `roofline` are imported.
    **environment : str
        Further environment variables.
    """

    def __init__(self, command, tree, **environment):
        self.errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
        others = [
            p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p and Path(p).resolve() != HERE
        ]
        self.process = subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            encoding="utf-8",
            env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join([str(tree), *others])},
            start_new_session=True,  # an interruption must not reach it directly
        )

    def kill(self):
        """End the process and its children."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def close(self):
        """End the process by closing its input, so that it leaves no temporary files, or kill it with its
        children."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
        self.process.stdout.close()
        self.errors.close()

    def last_words(self):
        """Wait for the end of the process; return its exit code and the last line of its error stream."""
        code = self.process.wait()
        self.errors.seek(0)
        lines = [line.strip() for line in self.errors if line.strip()]
        return f"process ended with {code}{f': {lines[-1]}' if lines else ''}"


class Side(Worker):
    """Run a process that prepares the rows of one revision, and times one on request.

    Parameters
    ----------
    name : str
        The name in messages.
    tree : Path
        The folder from which `portable`, `models` and `roofline` are imported.
    **case : case, space, n, quick, and of some cases file and programs
        As in `portable.roofline.side.prepare`.
    """

    def __init__(self, name, tree, **case):
        self.name = name
        super().__init__(["-P", side.__file__, json.dumps({"tree": str(tree), **case})], tree)

    def await_rows(self):
        """Wait until all rows are prepared; return them as `portable.roofline.side.row` makes them."""
        self.rows = self._read()

    def seconds(self, place, calls):
        """Return seconds per call of one batch."""
        return self._send_request(do="time", row=place, calls=calls)

    def result(self, place):
        """Return a row's number, on which both sides must agree."""
        return self._send_request(do="result", row=place)

    def _send_request(self, **request):
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except OSError as error:
            raise self._died() from error
        return self._read()

    def _read(self):
        line = self.process.stdout.readline()
        if not line:
            raise self._died()
        reply = json.loads(line)
        if "error" in reply:
            raise SideError(f"{self.name}: {reply['error']}")
        return reply["answer"]

    def _died(self):
        return SideDied(f"{self.name}: the {self.last_words()}")


@contextlib.contextmanager
def sitting(places, **case):
    """Yield the processes of both revisions, with prepared rows; they end with the block.

    Parameters
    ----------
    places : list of (str, Path)
        Name and folder of each.
    """
    with contextlib.ExitStack() as open_sides:
        sides = []
        for name, tree in places:
            sides.append(Side(name, tree, **case))
            open_sides.callback(sides[-1].close)
        for one in sides:
            one.await_rows()
        yield sides
