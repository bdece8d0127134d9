"""python -m tests.same_code REV: compare the compiler's code with that of another revision.

The tests of models, examples and conformance are run and the kernels that they compile are recorded (about
four minutes; kept with --records). Both revisions then lower every record for the CPU, for the CPU one index
at a time, and for CUDA, which needs no GPU. LLVM compiles the IR that differs after renaming, and a sample of
the rest, and the machine code or PTX is compared after renaming. The exit status is 1 if any code differs.
"""

import argparse
import hashlib
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

from portable.errors import InputError
from portable.roofline import revision

from . import report, seam

HERE = revision.HERE
SIDE = Path(__file__).with_name("side.py")
SAMPLE = 20  # one of so many equal sources is compiled, too


def side(tree, *arguments):
    """Start a process that runs side.py with a tree first on the path, without cached code."""
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    others = [p for p in paths if p and Path(p).resolve() != HERE]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree), *others]), "PORTABLE_CACHE": "0"}
    return subprocess.Popen([sys.executable, str(SIDE), *map(str, arguments)], env=environment, cwd=tree)


def done(*processes):
    """Wait for processes, all of which must succeed."""
    codes = [p.wait() for p in processes]
    if any(codes):
        raise SystemExit(f"same_code: a process ended with {max(codes, key=abs)}; its words are above")


def made(path):
    """Return the records that a side has written."""
    return pickle.loads(path.read_bytes())


def compare(trees, records, before, folder, *choice):
    """Lower records by the trees before and after, compile the IR that differs, print a report, and return
    the number of codes that differ.

    IR of the first tree that the file `before` contains already is taken from there. All results are written
    to the folder, compiled code also as separate files. `choice` is machines, name and seconds, as in
    side.py.
    """
    files = before, folder / "after"
    files[1].unlink(missing_ok=True)
    done(*(side(tree, "text", records, file, *choice) for tree, file in zip(trees, files)))
    after = made(files[1])
    texts = {key: text for key, text in made(before).items() if key in after}, after
    differ = report.differing(*texts)
    alike = [key for key in sorted(after) if key not in differ]
    differ |= dict.fromkeys(alike[::SAMPLE], [])  # detects changes to the calls of LLVM
    (folder / "compiled").write_bytes(pickle.dumps(set(differ)))
    folders = folder / "before.d", folder / "after.d"
    codes = [f.with_suffix(".codes") for f in folders]
    done(
        *(
            side(tree, "code", file, code, folder / "compiled")
            for tree, file, code in zip(trees, files, codes)
        )
    )
    codes = [made(code) for code in codes]
    for place, text, code in zip(folders, texts, codes):
        place.mkdir(exist_ok=True)
        for name, machine in code:
            file = str(place / f"{name} {machine}")
            Path(file + ".ll").write_text(text[name, machine])
            Path(file + (".ptx" if machine == "cuda" else ".s")).write_text(code[name, machine][0])
    return report.show(texts, differ, codes)


def main(arguments=None):
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.same_code",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("revision", metavar="REV", help="whatever git takes for a commit")
    parser.add_argument("--records", type=Path, metavar="FILE", help="what was recorded; made if missing")
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="records, texts and codes stay here; texts of REV are taken from here next time",
    )
    parser.add_argument("--only", default="", metavar="NAME", help="records whose name holds this")
    parser.add_argument("--machines", default=";".join(seam.MACHINES), help="default: '%(default)s'")
    parser.add_argument(
        "--quick",
        type=float,
        default="inf",
        metavar="SECONDS",
        help="records whose lowering took so long at most when they were recorded",
    )
    args = parser.parse_args(arguments)
    try:
        other = revision.find(args.revision, asked_as="REV")
    except InputError as error:
        parser.error(str(error))
    with tempfile.TemporaryDirectory() as temporary, revision.unpacked(other) as tree:
        folder = (args.keep or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        records = (args.records or folder / "records").resolve()
        if not records.exists():
            done(side(HERE, "record", records))
        digest = hashlib.sha256(records.read_bytes()).hexdigest()
        before = folder / f"{other.commit[:10]}-{digest[:10]}"
        return int(compare((tree, HERE), records, before, folder, args.machines, args.only, args.quick) > 0)


if __name__ == "__main__":
    sys.exit(main())
