"""`python -m tests.hostile.killing JOB FOLDER STEP`: disturbs a job at its writes, and checks that it
resumes.

Each call by which a store changes the disk (open, write, fsync, rename, unlink, mkdir, allocation) is an
event. At an event a fork of this process

* is killed by SIGKILL: before the event, after it, or half way through a write; another fork then runs
the same job to its end;
* finds the disk full (no file may grow beyond a few bytes: RLIMIT_FSIZE) until it ends; another fork then
finds room;
* is stopped, while another fork runs the same job; then it continues.

The result must be that of an undisturbed run, bit by bit; no complete part may be written again; a full disk
and a second process must be reported by name. Every STEP-th event is tried in each of these ways. Prints the
number of events, and the failures if there are any; then the exit status is 1.
"""

import contextlib
import functools
import os
import pickle
import resource
import signal
import shutil
import sys
from pathlib import Path

from portable.errors import PortableError

from . import jobs

CALLS = ("open", "write", "fsync", "replace", "unlink", "mkdir", "ftruncate", "posix_fallocate")
WAYS = ("before", "half way through", "after")
REPLACED = ("start-", "now-", "out")  # parts that hold the latest state, and are rewritten with it


class Shim:
    """Count the events of this process, and disturb it at one of them."""

    def __init__(self, at=None, way="before", what=lambda: os.kill(os.getpid(), signal.SIGKILL)):
        self.count, self._at, self._way, self._what = 0, at, way, what

    def __enter__(self):
        self._plain = {name: getattr(os, name) for name in CALLS}
        for name, call in self._plain.items():
            setattr(os, name, self._wrapped(name, call))
        return self

    def __exit__(self, *error):
        for name, call in self._plain.items():
            setattr(os, name, call)

    def _wrapped(self, name, call):
        def event(*args, **keywords):
            if name == "open" and not args[1] & os.O_CREAT:
                return call(*args, **keywords)
            here = self.count == self._at
            self.count += 1
            if here and self._way == "before":
                self._what()
            if here and self._way == "half way through" and name == "write":
                call(args[0], args[1][: len(args[1]) // 2])
                self._what()
            try:
                return call(*args, **keywords)
            finally:
                if here and self._way == "after":
                    self._what()

        return event


def started(work):
    """Fork a process that calls `work`; return its process id and the pipe for its result."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        with contextlib.suppress(BaseException), os.fdopen(writing, "wb") as pipe:
            try:
                found = work()
            except PortableError as error:
                found = str(error)
            pickle.dump(found, pipe)
        os._exit(0)
    os.close(writing)
    return child, reading


def ended(child, reading):
    """Return the result of a fork's work, or the message of the error that it raised; None if it was
    killed."""
    with os.fdopen(reading, "rb") as pipe:
        sent = pipe.read()
    os.waitpid(child, 0)
    return pickle.loads(sent) if sent else None


def forked(work):
    return ended(*started(work))


class Trial:
    """Job, a folder for it, and its expected result."""

    def __init__(self, job, folder):
        self.job, self._folder = job, folder / "tried"
        jobs.result(job, folder / "first")  # its kernels are compiled, and cached in files, too
        with Shim() as shim:
            self._wanted, _ = jobs.result(job, folder / "whole")
        self.n_events = shim.count

    def _run(self, **shim):
        """Begin the job in a fork."""
        shutil.rmtree(self._folder, ignore_errors=True)

        def work():
            with Shim(**shim):
                return jobs.result(self.job, self._folder)

        return started(work)

    def _goes_on(self):
        """Resume the same job; return a description of the failure, or None."""
        before = jobs.parts(self._folder)
        found = forked(lambda: jobs.result(self.job, self._folder))
        if found is None or isinstance(found, str):
            return f"the next run did not end: {found}"
        if found[1]:
            return f"a part is called damaged: {found[1]}"
        if not jobs.same(found[0], self._wanted):
            return "another result"
        again = [
            file.name
            for file, content in before.items()
            if not file.name.startswith(REPLACED) and file.read_bytes() != content
        ]
        return f"parts were lost: {again}" if again else None

    def killed(self, at, way):
        found = ended(*self._run(at=at, way=way))
        if found is not None and way != "half way through":  # only writes have a half
            return "it was not killed"
        return self._goes_on()

    def full(self, at):
        def fill():
            resource.setrlimit(resource.RLIMIT_FSIZE, (8, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

        found = ended(*self._run(at=at, what=fill))
        if found is None:
            return "it died"
        if isinstance(found, str) and not (str(self._folder) in found and "File too large" in found):
            return f"a full disk is told as {found!r}"
        if not isinstance(found, str) and not jobs.same(found[0], self._wanted):
            return "a full disk gave another result"
        return self._goes_on()

    def held(self, at):
        first, pipe = self._run(at=at, what=lambda: os.kill(os.getpid(), signal.SIGSTOP))
        os.waitpid(first, os.WUNTRACED)
        second = forked(lambda: jobs.result(self.job, self._folder))
        os.kill(first, signal.SIGCONT)
        found = ended(first, pipe)
        known = (
            f"in use by process {first} on ",
            "in use by another process",
        )  # which has not written its process id yet
        if isinstance(second, str) and not any(words in second for words in known):
            return f"a second process is told {second!r}"
        if isinstance(found, str) and "in use" in found:  # it was stopped before it held the folder's lock
            found = forked(lambda: jobs.result(self.job, self._folder))
        if found is None or isinstance(found, str) or not jobs.same(found[0], self._wanted):
            return f"the first process gave another result: {found}"
        return None


def main(job, folder, step):
    for module, name, value in jobs.SHORT:
        setattr(module, name, value)
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    trial, wrong = Trial(job, folder), []
    print(f"{job}: {trial.n_events} events", flush=True)
    ways = [(f"killed {way}", functools.partial(trial.killed, way=way)) for way in WAYS]
    ways += [("disk full at", trial.full)] + [("held at", trial.held)] * (job != "model_file")
    for number, (way, attempt) in enumerate(ways):
        for at in range(number * min(step, trial.n_events) // len(ways), trial.n_events, step):
            why = attempt(at)
            if why:
                wrong.append(f"{job}, {way} event {at}: {why}")
    print("\n".join(wrong) or "every result was the same", flush=True)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
