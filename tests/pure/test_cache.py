"""Test compiled kernels on disk: complete or absent, for this user only, with any number of processes."""

import os
import subprocess
import sys
import textwrap

import pytest

from portable.core import cache
from tests.processes import python

PROGRAM = textwrap.dedent("""
    import numpy as np, sys
    sys.path.insert(0, {folder!r})
    import kernels_of_many, portable as pk
    from portable.core import cache
    x = np.zeros(100)
    pk.parallel_for(pk.RangePolicy(0, 100, space="serial"), kernels_of_many.fill, x)
    assert (x == 3.0).all()
    print(cache.hits, cache.misses)
""")
KERNELS = """
import portable as pk

@pk.kernel
def fill(i, x):
    x[i] = 3.0
"""


def forget():
    cache.folder.cache_clear()
    cache._directory.cache_clear()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PORTABLE_CACHE", str(tmp_path / "cache"))
    forget()
    yield tmp_path
    forget()


def run(folder, **environment):
    (folder / "kernels_of_many.py").write_text(KERNELS)
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(folder=str(folder))],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PORTABLE_CACHE": str(folder / "cache"), **environment},
    )


def finished(process):
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return tuple(map(int, out.split()))


def test_what_is_put_is_got(folder):
    name = cache.key("some", 1, "code")
    assert cache.get(name) is None
    cache.put(name, b"machine code")
    assert cache.get(name) == b"machine code"
    assert cache.key("some", 1, "code") == name != cache.key("some", 2, "code")
    assert cache.statistics()["files"] == 1


def test_a_damaged_file_is_a_miss(folder):
    name = cache.key("damaged")
    cache.put(name, b"machine code")
    path = cache.folder() / name
    path.write_bytes(path.read_bytes()[:-1])
    assert cache.get(name) is None


def test_off(folder, monkeypatch):
    monkeypatch.setenv("PORTABLE_CACHE", "0")
    forget()
    cache.put(cache.key("off"), b"code")
    assert cache.folder() is None and cache.get(cache.key("off")) is None


posix = pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")


@posix
@pytest.mark.parametrize("place", ["cache/kernels", "cache"])
def test_a_folder_that_others_can_write_is_refused(folder, place):
    """This includes folders above: a user who can rename the folder can replace it."""
    (folder / "cache" / "kernels").mkdir(parents=True)
    (folder / place).chmod(0o777)
    with pytest.warns(UserWarning, match=f"others can write to .*{place} "):
        assert cache.folder() is None
    cache.put(cache.key("code"), b"code")
    assert cache.get(cache.key("code")) is None


@posix
def test_code_that_others_can_write_is_not_loaded(folder):
    """Files that other users left in a folder while it was writable to all remain refused after it is closed:
    each file is checked."""
    name = cache.key("planted")
    cache.put(name, b"machine code")
    path = cache.folder() / name
    path.chmod(0o666)
    assert cache.get(name) is None
    path.chmod(0o600)
    assert cache.get(name) == b"machine code"
    path.rename(folder / "elsewhere")
    path.symlink_to(folder / "elsewhere")
    assert cache.get(name) is None


@posix
@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root gives files away")
def test_code_of_another_user_is_not_loaded(folder):
    name = cache.key("planted")
    cache.put(name, b"machine code")
    os.chown(cache.folder() / name, 65534, 65534)
    assert cache.get(name) is None


@posix
def test_a_folder_that_is_exchanged_while_the_program_runs(folder):
    name = cache.key("code")
    cache.put(name, b"machine code")
    cache.folder().rename(folder / "mine")
    cache.folder().mkdir()
    (cache.folder() / name).write_bytes(cache._seal(b"planted"))
    assert cache.get(name) == b"machine code"


def test_an_unusable_folder_costs_time_only(folder, monkeypatch):
    (folder / "file").write_text("in the way")
    monkeypatch.setenv("PORTABLE_CACHE", str(folder / "file"))
    with pytest.warns(UserWarning, match="cannot be used"):
        cache.put(cache.key("code"), b"code")


def test_what_was_used_longest_ago_goes_first(folder, monkeypatch):
    monkeypatch.setattr(cache, "LIMIT_BYTES", 5000)
    for k in range(10):
        name = f"0{k}"
        cache.put(name, bytes(1000))
        os.utime(cache.folder() / name, (k, k))
    cache.put("0last", bytes(1000))
    left = sorted(p.name for p in cache.folder().iterdir())
    assert (
        "0last" in left
        and "00" not in left
        and sum(p.stat().st_size for p in cache.folder().iterdir()) <= 5000
    )


def test_a_second_process_compiles_nothing(folder):
    assert finished(run(folder))[1] > 0
    assert finished(run(folder)) == (finished(run(folder))[0], 0)


def test_a_process_that_finds_its_code_imports_nothing_that_makes_trees_or_code(folder):
    (folder / "kernels_of_many.py").write_text(KERNELS)
    makers = ".emit", ".lower", ".faults", "reading.tree", "reading.typing"
    told = f"\nprint(*sorted(m for m in sys.modules if m.endswith({makers})))"
    program = PROGRAM.format(folder=str(folder)) + told
    made = "reading.tree", "reading.typing", "writing.emit"
    compiler = [f"portable.core.compiler.{name}" for name in made]
    for emits in ([*compiler, "portable.core.machines.cpu.lower"], []):
        out = python("-c", program).stdout
        assert out.splitlines()[1].split() == emits


def test_the_command_tells_hits_and_misses_of_a_program(folder):
    (folder / "kernels_of_many.py").write_text(KERNELS)
    (folder / "program.py").write_text(PROGRAM.format(folder=str(folder)))
    for hits, misses in ((0, 2), (2, 0)):  # the kernel, and its caller that sets the arithmetic's state
        command = [sys.executable, *f"-m portable cache {folder}/program.py".split()]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        assert (out[out.index("hits") + 2], out[out.index("misses") + 2]) == (str(hits), str(misses))


def test_a_launch_makes_no_code_that_it_does_not_call(folder):
    """A kernel without loops, launched on the calling thread, needs neither the code for Ctrl-C nor that of
    the pool or of a last pack."""
    (folder / "kernels_of_many.py").write_text(KERNELS)
    program = PROGRAM.format(folder=str(folder)).replace("serial", "threads:2").replace("100", "192")
    told = "\nprint([m for m in ('stop', 'pool') if f'portable.core.machines.cpu.{m}' in sys.modules])"
    last = "\npk.parallel_for(pk.RangePolicy(0, 191, space='serial'), kernels_of_many.fill, x)" + told
    out = python("-c", program + told + last + "\nprint(cache.misses)").stdout
    assert out.split("\n")[:4] == ["0 2", "[]", "[]", "3"]


def test_many_processes_at_once(folder):
    for process in [run(folder) for _ in range(4)]:
        finished(process)
    assert not [p for p in cache_files(folder) if p.name.startswith(".part-")]


def cache_files(folder):
    return list((folder / "cache" / "kernels").iterdir())


AS_MANY = textwrap.dedent("""
    import numpy as np, portable as pk
    from portable.core import cache
    @pk.kernel
    def fill(i, x): x[i] = 7.0
    x = np.zeros(4)
    pk.parallel_for(pk.RangePolicy(0, 4, space="serial"), fill, x)
    assert (x == 7.0).all()
    print(cache.hits, cache.misses)
""")


def program(folder, search=None, before="", **environment):
    """Return the hits and misses of a process that launches a kernel."""
    (folder / "program.py").write_text(before + AS_MANY)
    base = {k: v for k, v in os.environ.items() if k not in ("PORTABLE_CACHE", "XDG_CACHE_HOME")}
    if search is not None:
        base["PYTHONPATH"] = str(search)
    done = python("-W", "error", "-P", "program.py", cwd=folder, env=base | environment, check=False)
    assert done.returncode == 0, done.stderr
    return tuple(map(int, done.stdout.split()))


@pytest.mark.parametrize("umask", [0o002, 0o000, 0o022, 0o077, 0o177])
def test_folders_that_are_made_are_of_one_user_alone(tmp_path, umask):
    home, before = tmp_path / "home", f"import os; os.umask({umask})\n"
    home.mkdir(mode=0o755)
    assert program(tmp_path, before=before, HOME=str(home))[0] == 0
    made = [path for path in home.rglob("*") if path.is_dir()]
    assert len(made) >= 2 and {path.stat().st_mode & 0o777 for path in made} == {0o700}
    assert program(tmp_path, before=before, HOME=str(home))[1] == 0


def test_a_folder_that_others_can_write_to_is_mended_as_told(folder, monkeypatch):
    (folder / "cache").mkdir()
    (folder / "cache").chmod(0o775)
    with pytest.warns(UserWarning, match=r"others can write to .*cache \(run `chmod go-w '.*cache'` if"):
        assert cache.folder() is None
    (folder / "cache").chmod(0o755)
    forget()
    assert cache.folder() is not None


def test_imported_from_an_archive(tmp_path):
    import zipfile
    from pathlib import Path

    import portable

    layer = Path(portable.__file__).parent
    with zipfile.ZipFile(tmp_path / "portable.zip", "w") as archive:
        for path in layer.rglob("*.py"):
            archive.write(path, path.relative_to(layer.parent))
    kept = {"search": tmp_path / "portable.zip", "PORTABLE_CACHE": str(tmp_path / "cache")}
    assert program(tmp_path, **kept)[0] == 0
    assert program(tmp_path, **kept)[1] == 0


@pytest.mark.skipif(os.open not in os.supports_dir_fd, reason="folders are not opened here")
@pytest.mark.parametrize("then", ["nothing", "folders", "files"])
def test_a_descriptor_that_was_closed_is_not_used(folder, then):
    """A daemon closes all inherited descriptors; the number may then belong to another file."""
    cache.put("first", b"one")
    (folder / "foreign").mkdir()
    (folder / "file").write_bytes(b"precious")
    os.close(cache._directory()[0])
    opened = []
    if then != "nothing":
        path = folder / ("foreign" if then == "folders" else "file")
        opened = [os.open(path, os.O_RDONLY) for _ in range(3)]
    try:
        assert cache.get("first") == b"one"
        cache.put("second", b"two")
        assert cache.get("second") == b"two"
        assert os.listdir(folder / "foreign") == [] and (folder / "file").read_bytes() == b"precious"
        assert sorted(os.listdir(cache.folder())) == ["first", "second"]
    finally:
        for descriptor in opened:
            os.close(descriptor)


def test_a_closed_descriptor_does_not_lead_to_an_exchanged_folder(folder):
    cache.put("first", b"one")
    os.close(cache._directory()[0])
    cache.folder().rename(folder / "mine")
    cache.folder().mkdir(mode=0o700)
    (cache.folder() / "first").write_bytes(cache._seal(b"planted"))
    assert cache.get("first") is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_in_the_place_of_a_file_does_not_wait(folder, impatient):
    cache.folder()
    os.mkfifo(cache.folder() / "first")
    assert cache.get("first") is None
    cache.put("first", b"one")
    assert cache.get("first") == b"one"
