"""Test which package imports which: each arrow is in the table, and a new one needs a reason."""

from .rooms import ARROWS, FLOORS
from .test_layers import SOURCES, imported, module

FACE = {"__init__", "__main__", "random", "testing", "former_names"}


def room(path):
    """Return the package of a file: its folder, or `portable` itself."""
    folder = path.parent.as_posix()
    if folder == "portable":
        return "face" if path.stem in FACE else path.stem
    return "face" if folder == "portable/backends" else folder.removeprefix("portable/")


def arrows():
    """Return {package: {package that it imports: {file, ...}}}."""
    place, found = {module(path): room(path) for path in SOURCES}, {}
    for path in SOURCES:
        for _, name in imported(path):
            if place[name] != room(path):
                found.setdefault(room(path), {}).setdefault(place[name], set()).add(str(path))
    return found


def test_a_room_knows_those_of_the_table():
    more = {
        f"{room} -> {other}": sorted(files)
        for room, others in arrows().items()
        for other, files in others.items()
        if other not in ARROWS.get(room, "").split()
    }
    assert not more, "an arrow that tests/architecture/rooms.py does not have"


def test_the_table_has_no_arrow_that_is_gone():
    found = arrows()
    gone = [
        f"{room} -> {other}"
        for room, others in ARROWS.items()
        for other in others.split()
        if other not in found.get(room, ())
    ]
    assert not gone


def test_the_core_knows_nothing_beside_it():
    beside = {
        f"{room} -> {other}"
        for room, others in ARROWS.items()
        for other in others.split()
        if room.partition("/")[0] == "core" and other.partition("/")[0] not in ("core", "errors")
    }
    assert not beside


def test_rooms_have_no_circle():
    left = {
        room: set(others.split())
        for room, others in ARROWS.items()
        if room.partition("/")[0] not in ("models", "roofline")
    }
    while ends := [room for room, others in left.items() if not others & left.keys()]:
        for room in ends:
            del left[room]
    assert left == {}


def test_the_measuring_tool_stands_in_floors():
    """Check the order machine < count < judge < report < compare of roofline's files: circles and upward
    imports would make it one layer.
    """
    floor = {name: k for k, names in enumerate(FLOORS.values()) for name in names.split()}
    own = [path for path in SOURCES if path.parts[0] == "roofline" and len(path.parts) == 2]
    assert {path.stem for path in own} | {"scoreboard"} == set(floor)
    assert not [
        f"{path.stem} -> {name}"
        for path in own
        for _, target in imported(path)
        if (name := target.removeprefix("portable.roofline.").partition(".")[0]) in floor
        and target != name
        and floor[name] > floor[path.stem]
    ]
