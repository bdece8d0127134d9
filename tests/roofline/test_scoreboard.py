"""Test the scoreboard: its rule on made-up samples, sittings, and records on a disk."""

import json
import subprocess

import numpy as np
import pytest
from numpy.random import default_rng

from portable.errors import InputError
from portable.roofline import __main__ as cli
from portable.roofline import cases, machine, peers, scoreboard
from portable.roofline.contract import Contender, Duel
from portable.roofline.scoreboard import headlines, command, identity, measured, records, timing_process
from portable.roofline.scoreboard.headlines import Headline

from .fakes import machine as facts_of

PEER = {"source": "abc", "versions": {"numba": "numba 0.68.1"}}
TITLE = "30 iterations, 5 runs"
ROUNDS = 7


def told(ratios, name="work", **changes):
    """Return the report of a sitting on a headline whose rounds have these ratios."""
    return {
        "name": name,
        "seconds": 1.0,
        "busy_cores": 0.0,
        "title": TITLE,
        "ours": "portable",
        "peer": "numba",
        "identity": PEER,
        "ours_seconds": [1.0] * len(ratios),
        "peer_seconds": list(ratios),
    } | changes


def on_record(ratio=10.0, **changes):
    three = {"median": ratio, "lower": ratio, "upper": ratio}
    return {
        "name": "work",
        "space": "threads:2",
        "title": TITLE,
        "ours": "portable",
        "peer": "numba",
        "ours_seconds": three,
        "peer_seconds": three,
        "ratio": three | {"interval": [ratio, ratio]},
        "seconds": 1.0,
        "identity": PEER,
        "command": "python -m portable.roofline scoreboard",
        "date": "2026-01-01",
        "commit": "1234abcd",
    } | changes


def row(record=None, *sittings, limit=0.9, name="work"):
    made = scoreboard.Row(Headline(name, "case", "", ""), record, limit)
    for one in sittings:
        made.add(one if isinstance(one, dict) else told(one, name))
    return made


def noisy(centre, spread, n=ROUNDS, seed=1):
    return (centre * np.exp(spread * default_rng(seed).standard_normal(n))).tolist()


@pytest.mark.parametrize(
    ("verdict", "record", "sitting"),
    [
        (scoreboard.HOLDS, on_record(), noisy(9.4, 0.02)),
        (scoreboard.SLOWER, on_record(), noisy(7.0, 0.02)),
        (scoreboard.UNDECIDED, on_record(), [5.0, 6.0, 7.0, 8.5, 12.0, 13.0, 14.0]),
        (scoreboard.BUSY, on_record(), told([7.0] * 9, busy_cores=0.8)),
        (scoreboard.FASTER, on_record(), noisy(13.0, 0.02)),
        (scoreboard.NO_RECORD, None, noisy(1.0, 0.02)),
        (scoreboard.NO_RECORD, on_record(title="30 iterations, 6 runs"), noisy(10.0, 0.02)),
        (scoreboard.PEER_CHANGED, on_record(identity=PEER | {"source": "xyz"}), noisy(10.0, 0.02)),
        (
            scoreboard.PEER_CHANGED,
            on_record(identity=PEER | {"versions": {"numba": "numba 0.68.2"}}),
            noisy(20.0, 0.02),
        ),
        (scoreboard.NO_PEER, on_record(), {"name": "work", "seconds": 0.0, "absent": "no module"}),
        (scoreboard.FAILED, on_record(), {"name": "work", "seconds": 0.0, "problem": "they differ"}),
        (scoreboard.LATE, on_record(), None),
    ],
)
def test_the_rule(verdict, record, sitting):
    found = row(record, *([] if sitting is None else [sitting] * scoreboard.DECISIVE))
    assert found.verdict == verdict
    assert found.headline.name in found.cells and verdict in found.cells[-1]


def test_two_processes_or_an_uncertain_record_decide_nothing():
    found, vague = noisy(8.5, 0.01), on_record()
    vague["ratio"]["interval"] = [9.0, 11.0]
    assert row(on_record(), [5.0]).verdict == row(on_record(), found, found).verdict == scoreboard.UNDECIDED
    assert row(vague, found, found, found).verdict == scoreboard.UNDECIDED
    assert row(vague, *[[7.0] * 9] * 3).verdict == scoreboard.SLOWER


def test_a_quiet_sitting_counts_alone():
    assert row(on_record(), told([7.0] * 9, busy_cores=0.8), [10.0] * 9).verdict == scoreboard.HOLDS


def test_a_gpu_has_the_narrower_limit():
    found = noisy(9.3, 0.002)
    assert row(on_record(), *[found] * 3).verdict == scoreboard.HOLDS
    assert row(on_record(), *[found] * 3, limit=scoreboard.LIMITS[1]).verdict == scoreboard.SLOWER


def test_operations_counted_anew_are_the_same_work():
    counted = on_record(title="an iteration, 9 points, 3.61 G operations, 564 a pair")
    again = told(noisy(10.0, 0.01), title="an iteration, 9 points, 3.47 G operations, 542 a pair")
    assert row(counted, again).verdict == scoreboard.HOLDS


@pytest.mark.parametrize("seed", range(5))
def test_unchanged_code_is_not_called_slower(seed):
    """Processes differ by 4 %, rounds by 20 %; a disturbance that halves the result of a sitting is measured
    again. Of 5 x 40 rows none is called slower, and of as many that lost a third at least nine in ten are."""
    random = default_rng(seed)

    def verdicts(centre):
        rows = [row(on_record(), name=str(k)) for k in range(40)]
        upset = set(random.integers(0, 40, 3))

        def sit(space, names, rounds, left, heard):
            for name in names:
                own = centre * np.exp(0.04 * random.standard_normal())
                own *= 0.5 if int(name) in upset and not rounds else 1.0
                heard(told(own * np.exp(0.2 * random.standard_normal(rounds or ROUNDS)), name))

        scoreboard.run(rows, "threads", 600.0, sit=sit)
        return [one.verdict for one in rows]

    assert scoreboard.SLOWER not in verdicts(10.0)
    assert verdicts(6.7).count(scoreboard.SLOWER) >= 36


def test_what_seems_down_is_timed_again_within_the_time():
    now, asked = [0.0], []
    rows = [row(on_record(), name=name) for name in ("fine", "down", "late")]

    def sit(space, names, rounds, left, heard):
        asked.append((tuple(names), rounds))
        for name in names:
            now[0] += 10.0
            if name != "late" or rounds:
                heard(told([{"fine": 10.0}.get(name, 5.0)] * 3, name) | {"seconds": 10.0})

    scoreboard.run(rows, "threads", 55.0, sit=sit, clock=lambda: now[0])
    assert asked == [(("fine", "down", "late"), None), (("down",), 6), (("down",), 6)]
    assert [one.verdict for one in rows] == [scoreboard.HOLDS, scoreboard.SLOWER, scoreboard.LATE]
    assert now[0] <= 55.0


def test_the_shortest_group_comes_first_by_what_is_on_record():
    asked = []
    rows = [
        scoreboard.Row(Headline(name, name, "", ""), on_record(seconds=seconds), 0.9)
        for name, seconds in (("long", 9.0), ("short", 1.0))
    ]
    scoreboard.run(rows, "threads", 60.0, sit=lambda space, names, *rest: asked.append(names))
    assert asked == [["short"], ["long"]]


@pytest.mark.parametrize(("spread", "sittings"), [(0.1, 3), (1.0, scoreboard.SITTINGS)])
def test_a_record_has_several_sittings_and_more_of_what_varies(spread, sittings):
    rows, calls = [row(name="work")], []

    def sit(space, names, rounds, left, heard):
        calls.append(rounds)
        heard(told([9.0 - spread, 9.0, 9.0 + spread + 0.01 * len(calls)]))

    scoreboard.run(rows, "threads", 60.0, scoreboard.RECORDED, sit=sit)
    made = rows[0].as_record("threads:2", facts_of(), "1234abcd")
    assert calls == [None] * 3 + [6] * (sittings - 3) and made["sittings"] == sittings
    assert made["rounds"] == 3 * sittings and made["ratio"]["median"] == 9.0 and made["date"] == "2026-01-01"


@pytest.mark.parametrize("space", ["threads", "serial", "cuda"])
def test_headlines_have_names_of_their_own_and_cases(space):
    names = [headline.name for headline in headlines.headlines_of(space)]
    assert len(set(names)) == len(names) and {h.case for h in headlines.headlines_of(space)} <= set(
        cases.COMPARED
    )
    for family in "launch layer algorithms hawkes tmap mixture_em resampling edm filters calls".split():
        assert family in {h.case for h in headlines.headlines_of(space)}


# headlines whose inputs need no launch on the space, or less than a second
@pytest.mark.parametrize(
    ("space", "known"),
    [
        ("cuda", ["edm", "hawkes"]),
        ("serial", "algorithms edm filters hawkes launch layer resampling start tmap".split()),
    ],
)
def test_each_headline_finds_one_duel_of_its_case(space, known, monkeypatch):
    """The duel is found without peers, which are neither requested nor imported."""
    monkeypatch.setattr(peers, "gather", lambda *given, **options: ([], []))
    duels = {}
    for headline in headlines.headlines_of(space):
        if headline.case in known:
            if headline.group not in duels:
                duels[headline.group] = cases.load(headline.case).duels(space, headline.n, headline.quick)
            assert headline.title.split("*")[0] in headline.find(duels[headline.group]).title
    assert {case for case, _, _ in duels} == set(known)


def duel(*rivals, title="work of 5", ours=1.0, absent=()):
    return Duel(title, side("portable", ours), [side(*rival) for rival in rivals], list(absent), 1e-6)


def side(label, value=1.0):
    return Contender(label, lambda: None, result=lambda: value)


def test_a_headline_finds_its_duel_and_its_peer():
    found = [duel(("numba", 1.0), ("numba, fastmath", 1.0)), duel(title="another of 5")]
    (peer,) = Headline("a", "c", "work*5", "fast").find(found).peers
    assert peer.label == "numba, fastmath"
    turned = Headline("a", "c", "work of 5", "numba", swapped=True).find(found)
    assert turned.ours.label == "numba" and [p.label for p in turned.peers] == ["portable"]
    with pytest.raises(LookupError, match="2 duels"):
        Headline("a", "c", "of 5", "numba").find(found)


def test_a_sitting_tells_times_or_the_reason():
    seen = timing_process.timed(Headline("a", "c", "work", "numba"), [duel(("numba", 1.0))], 3)
    assert len(seen["ours_seconds"]) == len(seen["peer_seconds"]) == 3 and seen["identity"]["source"] == ""
    gone = [duel(absent=[("work_numba", "ModuleNotFoundError: No module named 'numba'")])]
    seen = timing_process.timed(Headline("a", "c", "work", "numba"), gone, 3)
    assert seen["absent"] == "work_numba: ModuleNotFoundError: No module named 'numba'"
    seen = timing_process.timed(Headline("a", "c", "work", "numba"), [duel(("numba", 2.0))], 3)
    assert "they differ" in seen["problem"]


def test_peers_say_which_file_has_them():
    found, _ = peers.gather("launch", "serial", 1, 10)
    assert {contender.file for contender in found} == {"launch_numba"}


def test_the_identity_of_a_peer(tmp_path):
    """The identity depends on the peer's source and its imports, except docstrings, our own imports and
    NumPy.
    """
    text = (
        '"""A peer."""\n\nimport numpy as np\nimport rich\n\n'
        "from portable.roofline.contract import Contender\nfrom {} import f\n\nx = 1\n"
    )
    (tmp_path / "helper.py").write_text("f = 1\n")
    (tmp_path / "a.py").write_text(text.format("portable.roofline.peers.helper"))
    first = identity.identity_of("a", tmp_path)
    assert list(first["versions"]) == ["rich"] and first["versions"]["rich"].startswith("rich ")
    (tmp_path / "a.py").write_text(
        text.format("portable.roofline.peers.helper")
        .replace("A peer", "The peer")
        .replace("contract", "elsewhere")
    )
    assert identity.identity_of("a", tmp_path) == first
    (tmp_path / "helper.py").write_text("f = 2\n")
    assert identity.identity_of("a", tmp_path)["source"] != first["source"]
    (tmp_path / "helper.py").write_text("f = 1\n")
    (tmp_path / "a.py").write_text(text.format("portable.roofline.peers.helper").replace("x = 1", "x = 2"))
    assert identity.identity_of("a", tmp_path)["source"] != first["source"]
    assert identity.identity_of("") == {"source": "", "versions": {}}


@pytest.fixture
def quiet(monkeypatch, tmp_path):
    """Pretend that headlines take no time: three of them, in one group."""
    known = [Headline(name, "launch", "", "") for name in ("fine", "other", "down")]
    monkeypatch.setattr(headlines, "headlines_of", lambda space: known)
    monkeypatch.setattr(machine, "facts", lambda space: facts_of(busy_cores=0.0))

    def sit(space, names, rounds, left, heard):
        for name in names:
            heard(told([10.0, 10.1, 9.9], name))

    monkeypatch.setattr(scoreboard, "sitting_of", sit)
    return tmp_path / "records"


def scored(folder, *options):
    return cli.main([*f"scoreboard --space threads:2 --records {folder}".split(), *options])


def test_a_record_is_written_and_held_against(quiet, told):
    quiet.mkdir()
    assert scored(quiet, "--record", "--commit", "1234abcd") == 0
    (path,) = quiet.iterdir()
    assert path.name == "a-processor-2-cores.json"
    document = records.read(path, "A processor, 2 cores")
    assert [r["name"] for r in document["headlines"]] == ["down", "fine", "other"]
    assert scored(quiet) == 0 and "3 headlines: 3 holds" in told.out
    document["headlines"][0]["ratio"] |= {"median": 20.0, "interval": [20.0, 20.0]}
    records.write(path, document)
    assert scored(quiet) == 1 and "down (slower)" in told.out
    assert scored(quiet, "--only", "FINE, other") == 0
    assert scored(quiet, "--only", "fine", "--record", "--commit", "5678abcd") == 0
    after = records.read(path)
    assert [r["commit"] for r in after["headlines"]] == ["1234abcd", "5678abcd", "1234abcd"]
    assert not list(quiet.glob(".*"))
    scored(quiet, "--record", "--commit", "1234abcd")  # the machine is in another state
    assert records.read(path)["headlines"][0]["ratio"]["interval"][1] == 20.0


def test_a_row_of_the_host_is_held_against_the_same_processor(quiet, monkeypatch, capsys):
    """A different processor has no record, which is neither a pass nor a loss, until one is made for it."""
    quiet.mkdir()
    known = [Headline("fine", "launch", "", ""), Headline("calls", "calls", "", "", of_host=True)]
    monkeypatch.setattr(headlines, "headlines_of", lambda space: known)
    assert scored(quiet, "--record", "--commit", "1234abcd") == 0
    (path,) = quiet.iterdir()
    document = records.read(path)
    assert [r.get("host") for r in document["headlines"]] == ["A processor", None]
    document["headlines"][0] |= {"host": "1/2/3", "note": "there 11"}
    document["headlines"][0]["ratio"]["median"] = 20.0
    records.write(path, document)
    assert scored(quiet) == 0 and "1 holds, 1 no record" in capsys.readouterr().out
    assert scored(quiet, "--record", "--commit", "1234abcd") == 0
    assert scored(quiet) == 0 and "2 holds" in capsys.readouterr().out
    document = records.read(path)
    assert [r.get("host") for r in document["headlines"]] == ["1/2/3", "A processor", None]
    page = measured.page([document])
    assert "(1/2/3)" in page and "* calls: there 11\n" in page


def test_a_peer_that_changed_is_no_pass_until_it_is_recorded(quiet, told):
    quiet.mkdir()
    assert scored(quiet, "--record", "--commit", "1234abcd") == 0
    (path,) = quiet.iterdir()
    document = records.read(path)
    document["headlines"][0]["identity"] = {"source": "other", "versions": {}}
    records.write(path, document)
    assert scored(quiet) == 1 and "down (peer changed)" in told.out
    assert scored(quiet, "--record", "--commit", "1234abcd") == 0 and scored(quiet) == 0


def test_json_has_every_row(quiet, tmp_path):
    quiet.mkdir()
    assert scored(quiet, "--json", str(tmp_path / "seen.json")) == 0
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert [r["verdict"] for r in seen["rows"]] == [scoreboard.NO_RECORD] * 3 and seen["passed"]


def spoil(document, *path_and_value):
    *path, value = path_and_value
    at = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return json.dumps(document)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda text: text[: len(text) // 2], "is damaged"),
        (lambda text: "{}", "is damaged"),
        (("headlines", 0, "ratio", "median", "ten"), "is damaged"),
        (("headlines", 0, "ratio", "interval", None), "is damaged"),
        (("headlines", 0, "ratio", "median", float("nan")), "is damaged"),
        (("headlines", 0, "commit", None), "is damaged"),
        (("claims", {"a": 1}), "is damaged"),
        (("schema_version", 2), "another layout"),
        (("machine", "kind", "NVIDIA H200"), "another kind of machine"),
    ],
)
def test_a_wrong_record_is_told_and_left_alone(quiet, capsys, damage, words):
    quiet.mkdir()
    assert scored(quiet, "--record", "--commit", "1234abcd") == 0
    (path,) = quiet.iterdir()
    text = path.read_text()
    path.write_text(damage(text) if callable(damage) else spoil(json.loads(text), *damage))
    before = path.read_bytes()
    capsys.readouterr()
    for options in ((), ("--record", "--commit", "1234abcd")):
        assert scored(quiet, *options) == 2
        out, err = capsys.readouterr()
        assert out == "" and words in err and len(err.splitlines()) == 1 and "Traceback" not in err
    assert path.read_bytes() == before and list(quiet.iterdir()) == [path]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--space", "cuda:7"], "cuda"),
        (["--space", "nowhere"], "nowhere"),
        (["--space", "checked"], "interpreter"),
        (["--only", "nothing such"], "no headline's name contains 'nothing such'"),
        (["--records", "/nowhere/at/all"], "does not exist"),
    ],
)
def test_what_cannot_be_run_is_refused(quiet, capsys, options, words):
    quiet.mkdir()
    assert scored(quiet, *options) == 2
    out, err = capsys.readouterr()
    assert out == "" and words in err and len(err.splitlines()) == 1
    assert not list(quiet.iterdir())


def test_the_kind_of_a_machine():
    assert records.kind(facts_of()) == "A processor, 2 cores"
    assert records.kind(facts_of(cores=1)) == "A processor, 1 core"
    assert records.kind(facts_of(space="cuda", device="NVIDIA H200")) == "NVIDIA H200"
    with pytest.raises(InputError, match="reports no name"):
        records.kind(facts_of(space="cuda"))


def test_a_gpu_is_named_by_nvidia_smi_where_the_driver_has_no_files(monkeypatch, tmp_path):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho NVIDIA H200\necho NVIDIA H100\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert [machine.gpu_model(space, tmp_path) for space in ("cuda", "cuda:1", "cuda:2")] == [
        "NVIDIA H200",
        "NVIDIA H100",
        None,
    ]


def test_a_record_without_a_commit_is_refused(quiet, monkeypatch, told):
    quiet.mkdir()
    monkeypatch.setattr(command.revision, "current", lambda: {"commit": "", "changed": False})
    assert scored(quiet, "--record") == 2 and "--commit" in told.err
    assert not list(quiet.iterdir())


def test_a_process_that_dies_is_a_problem_of_its_rows():
    heard = []
    scoreboard.sitting_of("nowhere", ["launch"], None, 60.0, heard.append)
    assert [one["name"] for one in heard] == ["launch"] and "nowhere" in heard[0]["problem"]


def test_a_sitting_ends_when_the_time_is_over():
    heard = []
    scoreboard.sitting_of("serial", ["launch"], None, 0.1, heard.append)
    assert heard == []


def test_peers_wait_without_spinning(monkeypatch):
    seen = {}

    class Started(subprocess.Popen):
        def __init__(self, *args, env=None, **options):
            seen.update(env)
            super().__init__(*args, env=env, **options)

    monkeypatch.setattr(subprocess, "Popen", Started)
    scoreboard.sitting_of("serial", ["launch"], None, 0.1, lambda told: None)
    assert seen["OMP_WAIT_POLICY"] == "passive"
