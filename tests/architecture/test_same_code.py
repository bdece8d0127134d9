"""Test the comparison of the machine code of two states of the compiler, which guards changes to it."""

import pickle
import shutil

import numpy as np
import pytest

import portable as pk
from portable.core import cache
from portable.core.compiler.writing.entry import Entry

from ..same_code import __main__ as same_code
from ..same_code import normal, report, seam


@pk.kernel
def add(i, x, y):
    y[i] = x[i] + y[i]


@pk.kernel
def scale(i, a, x):
    x[i] = a * x[i]


OTHER = """

_text = Cores.text


def _other(self, entry):
    unused = "%unused = add i64 1, 2\\n  ret void"
    return _text(self, entry).replace("fadd", "fsub").replace("ret void", unused, 1)


Cores.text = _other
"""


def test_changed_code_is_told_from_changed_text(tmp_path, monkeypatch, capfd):
    """Compare two trees, one of which subtracts for each sum and adds an instruction that LLVM removes, on
    the CPU.
    """
    monkeypatch.setenv("PORTABLE_CACHE", "0")  # code found in the cache would not be built
    monkeypatch.setattr(cache, "_directory", lambda: None)  # not the folder used so far
    monkeypatch.syspath_prepend(same_code.SIDE.parent)
    import records
    import side

    assert records.__file__ == str(same_code.SIDE.with_name("records.py"))
    recorder = side.Recorder()
    monkeypatch.setattr(Entry, "__init__", Entry.__init__)  # restored afterwards
    seam.watch(recorder.told)
    x = np.ones(9)
    policy = pk.RangePolicy(0, 9, "serial")
    pk.parallel_for(policy, add, x, x.copy())
    pk.parallel_for(policy, scale, 2.0, x)
    (tmp_path / "records").write_bytes(pickle.dumps(list(recorder.records.values())))
    assert len(recorder.records) == 2 and not recorder.missed

    compiled = shutil.ignore_patterns("__pycache__")
    shutil.copytree(same_code.HERE / "portable", tmp_path / "tree/portable", ignore=compiled)
    with open(tmp_path / "tree/portable/core/machines/cpu/entry.py", "a", encoding="utf-8") as file:
        file.write(OTHER)
    trees = tmp_path / "tree", same_code.HERE
    files = tmp_path / "records", tmp_path / "texts", tmp_path
    different = same_code.compare(trees, *files, ";".join(seam.MACHINES), "", "inf")
    out = capfd.readouterr().out
    assert different == 2
    assert "6 texts: 2 identical, 0 after renaming, 4 differ" in out
    assert "5 compiled: code of 3 identical after renaming, of 2 not" in out
    assert "changes: +fadd -add -fsub" in out and "changes: -add\n" in out
    name = "tests.architecture.test_same_code.add #1 range cpu.s"
    before, after = tmp_path / "before.d" / name, tmp_path / "after.d" / name
    assert before.read_text() != after.read_text()
    assert "fsub" in before.with_suffix(".ll").read_text() and "fadd" in after.with_suffix(".ll").read_text()


LLVM = """define void @f(double %x) {
entry:
  %y = call double @llvm.fabs.f64(double %x)
  br label %entry2
entry2:
  ret void
}
declare double @llvm.fabs.f64(double)
"""
ASSEMBLY = """\t.globl\tf
f:
\tvmovsd\t8(%rsp), %xmm1  # 8-byte Reload
.LBB0_1:
\tjmp\t.LBB0_1
"""
PTX = """.visible .entry f(
\t.param .u64 f_param_0
)
{
\t.reg .b64 \t%rd<9>;
\tld.param.b64 \t%rd3, [f_param_0]; // the argument
\tmov.u32 \t%r5, %tid.x;
$L__BB0_2:
\tbra.uni \t$L__BB0_2;
}
"""


@pytest.mark.parametrize(
    "lines_of text renamed changed".split(),
    [
        (normal.normal, LLVM, {"@f": '@"g"', "%x": '%".3"', "entry2": "z"}, {"ret void": "unreachable"}),
        (normal.normal, LLVM, {"%y": "%w"}, {"llvm.fabs": "llvm.sqrt"}),
        (
            lambda text: normal.normal_code("cpu", text),
            ASSEMBLY,
            {"\tf": "\tg", "f:": "g:", "LBB0_1": "LBB0_7"},
            {"xmm1": "xmm2"},
        ),
        (
            lambda text: normal.normal_code("cuda", text),
            PTX,
            {"%rd3": "%rd8", "<9>": "<5>", "BB0_2": "BB0_3", " f": " g", "[f": "[g"},
            {"%tid.x": "%tid.y"},
        ),
    ],
)
def test_names_do_not_count(lines_of, text, renamed, changed):
    def with_(changes):
        made = text
        for old, new in changes.items():
            assert old in made
            made = made.replace(old, new)
        return made

    assert lines_of(with_(renamed)) == lines_of(text) != lines_of(with_(changed))


def test_what_one_side_refuses_is_told_with_its_reason(capsys):
    key = "kernel #1 range", "cpu"
    texts = {key: LLVM}, {key: "refused: LanguageError: no such word\n"}
    differ = report.differing(*texts)
    assert report.show(texts, differ, ({key: (ASSEMBLY, 0.5)}, {key: (texts[1][key], 0.0)})) == 1
    assert "changes: lowered -> refused: LanguageError: no such word\n" in capsys.readouterr().out


def test_a_revision_that_is_not_there(told):
    with pytest.raises(SystemExit):
        same_code.main(["no-such-revision"])
    assert "REV: " in told.err
