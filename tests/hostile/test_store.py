"""Test the store of long jobs: contents, refusals, and their messages."""

import json
import os
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from portable.models.shared.files import check_no_input, replacing, write
from portable.models.shared.store import Store
from portable.errors import DTypeError, InputError, StorageError

from ..processes import python

SETTINGS = {"tau": 1, "dtype": "float32", "dataset": np.arange(6.0).reshape(2, 3)}


def opened(path, **changes):
    return Store(path, "a job", SETTINGS | changes)


def test_parts_come_back_and_are_plain_npz(tmp_path):
    with opened(tmp_path / "run") as store:
        store.put("b", rows=np.arange(3), words=np.array(["é", "\x1b"]))
        store.put("a", rows=np.zeros(0))
    with opened(tmp_path / "run") as store:
        assert store.names() == ["a", "b"] and store.names("b") == ["b"]
        assert_array_equal(store.get("b")["rows"], np.arange(3))
        assert store.get("b")["words"].tolist() == ["é", "\x1b"] and store.get("c") is None
    with np.load(tmp_path / "run" / "b.npz") as file:
        assert_array_equal(file["rows"], np.arange(3))


def test_without_a_folder_nothing_is_kept():
    with Store(None, "a job", {}) as store:
        store.put("a", rows=np.zeros(3))
        assert store.get("a") is None and store.names() == [] and not store.due()


def test_another_key_is_refused_by_name(tmp_path):
    with opened(tmp_path / "run") as store:
        store.put("a", rows=np.zeros(3))
    with pytest.raises(
        InputError, match=r"checkpoint: '.*run' belongs to another run: tau is 1 there, 2 here\. Name another"
    ):
        opened(tmp_path / "run", tau=2)
    with pytest.raises(InputError, match="another run: dataset differs"):
        opened(tmp_path / "run", dataset=np.ones((2, 3)))
    with pytest.raises(InputError, match="job is 'a job' there, 'another' here"):
        Store(tmp_path / "run", "another", SETTINGS)
    with opened(tmp_path / "run") as store:  # no call has modified it
        assert store.get("a") is not None


@pytest.mark.parametrize(
    "damage",
    [
        lambda b: b[:100],
        lambda b: b"",
        lambda b: b[:200] + bytes([b[200] ^ 1]) + b[201:],
        lambda b: b[:-1] + b"x",
        lambda b: b"\0" * len(b),
    ],
)
def test_a_damaged_part_is_named_and_costs_itself_alone(tmp_path, damage):
    with opened(tmp_path / "run") as store:
        store.put("a", rows=np.arange(100))
        store.put("b", rows=np.arange(3))
    file = tmp_path / "run" / "a.npz"
    file.write_bytes(damage(file.read_bytes()))
    with opened(tmp_path / "run") as store:
        with pytest.warns(
            RuntimeWarning,
            match=r"checkpoint: part '.*a\.npz' is damaged \(its seal .*\); it is computed again",
        ):
            assert store.get("a") is None
        assert store.get("b") is not None


def test_a_part_of_another_run_or_of_another_name_is_no_part(tmp_path):
    with opened(tmp_path / "one") as one, opened(tmp_path / "two", tau=3) as two:
        one.put("a", rows=np.arange(3))
        two.put("a", rows=np.arange(4))
        os.replace(tmp_path / "two" / "a.npz", tmp_path / "one" / "b.npz")
        (tmp_path / "one" / "c.npz").write_bytes((tmp_path / "one" / "a.npz").read_bytes())
        for name in "bc":
            with pytest.warns(RuntimeWarning, match="damaged"):
                assert one.get(name) is None


def test_the_key_itself_may_be_damaged(tmp_path):
    run = tmp_path / "run" / "run.json"
    with opened(tmp_path / "run") as store:
        store.put("a", rows=np.arange(3))
    for text in ("", "[" * 100_000, json.dumps({"key": "0", "run": {}})):
        run.write_text(text)
        with (
            pytest.warns(RuntimeWarning, match="run.json' is damaged; it is written again"),
            opened(tmp_path / "run") as store,
        ):
            assert store.get("a") is not None
        with warnings.catch_warnings(), opened(tmp_path / "run"):
            warnings.simplefilter("error")
    run.unlink()
    with pytest.raises(InputError, match="run.json' is missing, and no part is of this run"):
        opened(tmp_path / "run", tau=2)


def test_a_second_one_is_told_who_holds_it(tmp_path):
    with opened(tmp_path / "run"):
        for _ in range(2):
            with pytest.raises(
                InputError, match=rf"in use by process {os.getpid()} on .* since 20..-.*wait for it"
            ):
                opened(tmp_path / "run")
        text = (
            f"from portable.models.shared.store import Store\ntry: Store({str(tmp_path / 'run')!r}, 'a "
            f"job', {{}})\n"
            "except ValueError as error: print(error)"
        )
        said = python("-c", text).stdout
        assert f"in use by process {os.getpid()} on " in said
    opened(tmp_path / "run").close()


def test_wrong_folders(tmp_path):
    with pytest.raises(DTypeError, match="checkpoint must be the name of a folder, got int"):
        opened(3)
    with pytest.raises(InputError, match="the folder '.*absent' does not exist"):
        opened(tmp_path / "absent" / "run")
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="'.*file' is a file; expected the name of a folder"):
        opened(tmp_path / "file")
    with pytest.raises(InputError, match="holds 'file', which is not of a checkpoint"):
        opened(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file"]


def test_a_link_to_a_folder_stays_a_link(tmp_path):
    (tmp_path / "scratch").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "scratch")
    with opened(tmp_path / "run") as store:
        store.put("a", rows=np.zeros(1))
    assert (tmp_path / "run").is_symlink() and (tmp_path / "scratch" / "a.npz").exists()


def test_a_chain_goes_on_over_a_hole(tmp_path):
    ran = []

    def run(before, begin, end):
        ran.append((begin, end))
        end = min(end, begin + 4)
        first = 0 if before is None else int(before["total"])
        rows = first + np.cumsum(np.arange(begin, end))
        return {"end": np.array(end), "rows": rows, "total": rows[-1]}

    def rows(n, path=None):
        with opened(path) as store:
            return np.concatenate([part["rows"] for part in store.chain("steps", n, run)])[:n]

    whole = rows(30)
    assert_array_equal(whole, np.cumsum(np.arange(30)))
    assert_array_equal(rows(10, tmp_path / "run"), whole[:10])
    ran.clear()
    assert_array_equal(rows(30, tmp_path / "run"), whole)  # longer: continues from the end of the shorter one
    assert ran[0] == (10, 30)
    ran.clear()
    assert_array_equal(rows(30, tmp_path / "run"), whole)
    assert_array_equal(rows(5, tmp_path / "run"), whole[:5])
    assert ran == []
    (tmp_path / "run" / "steps-000000000004.npz").unlink()
    assert_array_equal(rows(30, tmp_path / "run"), whole)
    assert ran == [(4, 8)]


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path, link = tmp_path / "model.json", tmp_path / "link.json"
    write(path, "old")
    path.chmod(0o640)
    link.symlink_to(path)
    with pytest.raises(KeyboardInterrupt), replacing(path) as beside:
        beside.write_text("ne")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    write(link, "new")
    assert path.read_text() == "new" and link.is_symlink() and path.stat().st_mode & 0o777 == 0o640
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link.json", "model.json"]
    with pytest.raises(StorageError, match="out: '.*absent.*' cannot be written: No such file or directory"):
        write(tmp_path / "absent" / "x", "y")


def test_an_input_is_never_written_to(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((4, 3)))
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    for array in (x, x[1:], np.asarray(x)[:, 0]):
        with pytest.raises(InputError, match="out is '.*x.npy', the file that dataset is read from"):
            check_no_input(tmp_path / "x.npy", array, "out", "dataset")
        check_no_input(tmp_path / "y.npy", array, "out", "dataset")
    check_no_input(tmp_path / "x.npy", np.array(x), "out", "dataset")


def test_everything_is_on_the_disk_before_it_is_known(tmp_path, monkeypatch):
    """A new file is synced before it gets its name, the folder after."""
    seen, fsync, replaced = [], os.fsync, os.replace
    monkeypatch.setattr(
        os, "fsync", lambda file: (seen.append(os.readlink(f"/proc/self/fd/{file}")), fsync(file))[1]
    )
    monkeypatch.setattr(os, "replace", lambda one, other: (seen.append(str(other)), replaced(one, other))[1])
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("descriptors have no names here")
    with opened(tmp_path / "run") as store:
        assert seen[0] == str(tmp_path) and seen[3] == str(tmp_path / "run")
        seen.clear()
        store.put("a", rows=np.zeros(3))
    assert seen[0].endswith(".partial.npz") and seen[1:] == [
        str(tmp_path / "run" / "a.npz"),
        str(tmp_path / "run"),
    ]


@pytest.mark.parametrize("kind", ["link", "dangling", "hard link", "pipe", "folder"])
def test_the_lock_is_no_way_to_another_file(tmp_path, kind, impatient):
    """If the lock is a link, following it would overwrite another file."""
    thesis, kept = tmp_path / "thesis.txt", tmp_path / "run"
    thesis.write_text("precious")
    kept.mkdir()
    lock = kept / "lock"
    {
        "link": lambda: lock.symlink_to(thesis),
        "dangling": lambda: lock.symlink_to(tmp_path / "new.txt"),
        "hard link": lambda: os.link(thesis, lock),
        "pipe": lambda: os.mkfifo(lock),
        "folder": lock.mkdir,
    }[kind]()
    words = "lock' cannot be written" if kind == "folder" else "lock' must be an ordinary file"
    with pytest.raises((InputError, StorageError), match=words):
        opened(kept)
    assert thesis.read_text() == "precious" and not (tmp_path / "new.txt").exists()


def store_without(tmp_path, name):
    """Make a store of two parts, and delete one of its files."""
    with opened(tmp_path / "run") as store:
        store.put("a", rows=np.zeros(3))
        store.put("b", rows=np.zeros(3))
    (tmp_path / "run" / name).unlink()


@pytest.mark.parametrize("name", ["a.npz", "run.json"])
def test_no_part_is_written_through_a_link(tmp_path, name):
    """Neither a damaged part nor the key is written through a link; the link is replaced."""
    thesis = tmp_path / "thesis.txt"
    thesis.write_text("precious")
    store_without(tmp_path, name)
    (tmp_path / "run" / name).symlink_to(thesis)
    with pytest.warns(RuntimeWarning, match=f"{name}' is damaged"), opened(tmp_path / "run") as store:
        assert (store.get("a") is None) == (name == "a.npz")
        store.put("a", rows=np.ones(3))
    assert thesis.read_text() == "precious" and not (tmp_path / "run" / name).is_symlink()
    with opened(tmp_path / "run") as store:
        assert_array_equal(store.get("a")["rows"], np.ones(3))


@pytest.mark.parametrize("name", ["a.npz", "run.json"])
def test_a_pipe_in_the_place_of_a_part_does_not_wait(tmp_path, name, impatient):
    store_without(tmp_path, name)
    os.mkfifo(tmp_path / "run" / name)
    with pytest.warns(RuntimeWarning, match=f"{name}' is damaged"), opened(tmp_path / "run") as store:
        assert (store.get("a") is None) == (name == "a.npz")
        store.put("a", rows=np.ones(3))
        assert store.get("a") is not None and store.get("b") is not None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.parametrize("leave", ["exit", "error", "close"])
def test_a_fork_that_leaves_takes_nothing_from_its_parent(tmp_path, leave):
    """A fork that exits releases neither the lock nor the file that is being written."""
    with opened(tmp_path / "run") as store, replacing(tmp_path / "out.npy", shared=True) as beside:
        beside.write_bytes(b"half")
        child = os.fork()
        if not child:
            try:
                store.close()
                if leave != "close":
                    with store, replacing(tmp_path / "own.npy"):
                        raise SystemExit(0) if leave == "exit" else ValueError
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        with pytest.raises(InputError, match="in use by process"):
            opened(tmp_path / "run")
    assert (tmp_path / "out.npy").read_bytes() == b"half"
    opened(tmp_path / "run").close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_fork_that_unwinds_leaves_the_new_file(tmp_path):
    text = (
        "import os, sys\nfrom portable.models.shared.files import replacing\nfrom "
        "portable.models.shared.store import Store\n"
        "with Store('run', 'job', {}), replacing('out.npy') as beside:\n"
        "    beside.write_bytes(b'whole')\n    child = os.fork()\n    if not child: sys.exit()\n"
        "    os.waitpid(child, 0)\n    assert beside.exists()\n    try: Store('run', 'job', {})\n"
        "    except ValueError as error: print(error)\n"
    )
    done = python("-c", text, cwd=tmp_path, check=False)
    assert "in use by process" in done.stdout, done.stderr
    assert (tmp_path / "out.npy").read_bytes() == b"whole"


def test_a_closed_lock_is_not_another_file(tmp_path):
    """A daemon closes all descriptors; the lock's number then belongs to a pipe, which stays open."""
    store = opened(tmp_path / "run")
    os.close(store._lock)
    ends = os.pipe()
    assert store._lock in ends
    store.close()
    os.write(ends[1], b"x")
    assert os.read(ends[0], 1) == b"x"
    for end in ends:
        os.close(end)


def test_a_file_that_appears_meanwhile_stays(tmp_path, monkeypatch):
    """Let two calls write to one place: the second to finish is refused, also where the system has no
    links."""
    path = tmp_path / "r.npy"

    def meanwhile():
        with pytest.raises(InputError, match="out is '.*r.npy', which another call has written meanwhile"):
            with replacing(path, shared=True) as beside:
                beside.write_text("mine")
                if path.exists():
                    path.unlink()
                path.write_text("theirs")
        assert path.read_text() == "theirs" and [file.name for file in tmp_path.iterdir()] == ["r.npy"]

    meanwhile()
    meanwhile()  # its own file was replaced by the other call's
    with replacing(path, shared=True) as beside:
        beside.write_text("mine")
    assert path.read_text() == "mine"

    def link(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    path.unlink()
    meanwhile()
    path.unlink()
    with replacing(path, shared=True) as beside:
        beside.write_text("mine")
    assert path.read_text() == "mine"
