"""Compiled kernels on disk: whole or absent, for this user alone, however many processes there are."""

import os
import subprocess
import sys
import textwrap

import pytest

from portable import cache

PROGRAM = textwrap.dedent("""
    import numpy as np, sys
    sys.path.insert(0, {folder!r})
    import kernels_of_many, portable as pk
    from portable import cache
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
    """Also one above: who can rename the folder can put another in its place."""
    (folder / "cache" / "kernels").mkdir(parents=True)
    (folder / place).chmod(0o777)
    with pytest.warns(UserWarning, match=f"others can write to .*{place} "):
        assert cache.folder() is None
    cache.put(cache.key("code"), b"code")
    assert cache.get(cache.key("code")) is None


@posix
def test_code_that_others_can_write_is_not_loaded(folder):
    """What somebody left there while the folder was open to all stays when it is closed: files are looked at
    one by one."""
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
    makers = ".emit", ".lower", ".faults", "compiler.tree", "compiler.typing"
    told = f"\nprint(*sorted(m for m in sys.modules if m.endswith({makers})))"
    program = PROGRAM.format(folder=str(folder)) + told
    made = [f"compiler.{name}" for name in ("emit", "tree", "typing")]
    for emits in ([f"portable.{name}" for name in ("backends.cpu.lower", *made)], []):
        out = subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, text=True
        ).stdout
        assert out.splitlines()[1].split() == emits


def test_the_command_tells_hits_and_misses_of_a_program(folder):
    (folder / "kernels_of_many.py").write_text(KERNELS)
    (folder / "program.py").write_text(PROGRAM.format(folder=str(folder)))
    for hits, misses in ((0, 2), (2, 0)):  # the kernel, and what calls it in the usual state of arithmetic
        command = [sys.executable, "-m", "portable", "cache", str(folder / "program.py")]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        assert (out[out.index("hits") + 2], out[out.index("misses") + 2]) == (str(hits), str(misses))


def test_a_launch_makes_no_code_that_it_does_not_call(folder):
    """A text without loops, on the calling thread alone: neither Ctrl-C's code nor the pool's, nor that of a
    last pack."""
    (folder / "kernels_of_many.py").write_text(KERNELS)
    program = PROGRAM.format(folder=str(folder)).replace("serial", "threads:2").replace("100", "192")
    told = "\nprint([m for m in ('stop', 'pool') if f'portable.backends.cpu.{m}' in sys.modules])"
    last = "\npk.parallel_for(pk.RangePolicy(0, 191, space='serial'), kernels_of_many.fill, x)" + told
    out = subprocess.run(
        [sys.executable, "-c", program + told + last + "\nprint(cache.misses)"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert out.split("\n")[:4] == ["0 2", "[]", "[]", "3"]


def test_many_processes_at_once(folder):
    for process in [run(folder) for _ in range(4)]:
        finished(process)
    assert not [p for p in cache_files(folder) if p.name.startswith(".part-")]


def cache_files(folder):
    return list((folder / "cache" / "kernels").iterdir())
