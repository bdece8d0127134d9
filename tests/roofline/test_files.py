"""Test that folders and files of the command line are checked before a measurement begins."""

import pytest

from portable.errors import InputError
from portable.roofline import files


def test_data_folder_prefers_the_option(tmp_path, monkeypatch):
    monkeypatch.setenv("PORTABLE_DATA", str(tmp_path / "elsewhere"))
    assert files.data_folder(str(tmp_path)) == tmp_path


def test_no_folder_means_simulated(monkeypatch):
    monkeypatch.delenv("PORTABLE_DATA", raising=False)
    assert files.data_folder(None) is None


def test_a_missing_folder_is_refused_by_the_name_of_who_gave_it(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="--data: .*nowhere"):
        files.data_folder(str(tmp_path / "nowhere"))
    monkeypatch.setenv("PORTABLE_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="PORTABLE_DATA: .*nowhere"):
        files.data_folder(None)


@pytest.mark.parametrize(("name", "words"), [("", "is a folder"), ("no/such/report.html", "does not exist")])
def test_a_file_that_cannot_be_written_is_refused(tmp_path, name, words):
    with pytest.raises(InputError, match=f"--out: .*{words}"):
        files.check_writable("--out", tmp_path / name)


def test_a_check_leaves_nothing_behind(tmp_path):
    files.check_writable("--out", tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


def test_write_replaces_the_whole_file(tmp_path):
    path = tmp_path / "report.html"
    for text in ("a longer first text", "µ"):
        files.write(path, text)
        assert path.read_text(encoding="utf-8") == text
    assert list(tmp_path.iterdir()) == [path]
