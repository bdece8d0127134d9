"""A profile over time: as a trace in Chrome's format, for ui.perfetto.dev, and as a picture."""

import json

from portable.roofline.units import scaled

WIDTH, NARROWEST = 860, 0.6  # pixels of the picture, and of a block in it


def tracks(made):
    """Return the parallel tracks of a profile.

    Parameters
    ----------
    made : Profile

    Returns
    -------
    dict of name to list of (start in seconds, seconds, label, facts): regions; launches as each queue runs
    them, a graph being one; on a device also the launches' costs on the host; copies. Empty ones are left
    out.
    """
    found = {"regions": [(start, seconds, name, {}) for name, start, seconds in made.regions]}
    for event in made.events:
        facts = {"region": event.region, "size": made.sizes(event), "launches": len(event.launches)}
        if event.space.startswith("cuda"):
            found.setdefault("host, launching", []).append((*event.called, event.label, facts))
        found.setdefault(event.queue, []).append((event.start, event.seconds, event.label, facts))
    for copy in made.copies:
        what = f"{copy.source} to {copy.target}" if copy.source else f"fill of {copy.target}"
        facts = {"region": copy.region, "bytes": copy.nbytes}
        found.setdefault("copies", []).append(
            (copy.start, copy.seconds, f"{what}, {scaled(copy.nbytes, 'B')}", facts)
        )
    return {
        name: sorted(spans, key=lambda span: (span[0], -span[1])) for name, spans in found.items() if spans
    }


def trace(made):
    """Return the profile in Chrome's trace format, a dict fit for JSON; times in microseconds."""
    events = []
    for track, (name, spans) in enumerate(tracks(made).items(), 1):
        place = {"pid": 1, "tid": track}
        events.append({"name": "thread_name", "ph": "M", "args": {"name": name}, **place})
        events.append({"name": "thread_sort_index", "ph": "M", "args": {"sort_index": track}, **place})
        for start, seconds, label, facts in spans:
            events.append(
                {"name": label, "ph": "X", "ts": 1e6 * start, "dur": 1e6 * seconds, "args": facts, **place}
            )
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def as_json(made):
    """Return `trace` as text."""
    return json.dumps(trace(made), allow_nan=False) + "\n"


def picture(made):
    """Return blocks of each track: {name: [(x, width, number of events, up to four of their labels, seconds),
    ...]}, in pixels; adjacent events that are too small to be distinguished share a block."""
    passed, found = tracks(made), {}
    ends = (start + seconds for spans in passed.values() for start, seconds, *_ in spans)
    whole = max(made.seconds, *ends)
    for name, spans in passed.items():
        blocks = []
        for start, seconds, label, _ in spans:
            x, width = WIDTH * start / whole, max(WIDTH * seconds / whole, NARROWEST)
            if name != "regions" and blocks and x - blocks[-1][0] - blocks[-1][1] < NARROWEST and width < 3:
                first, _, n, labels, total = blocks[-1]
                labels = labels if label in labels else [*labels, label][:4]
                blocks[-1] = first, x + width - first, n + 1, labels, total + seconds
            else:
                blocks.append((x, width, 1, [label], seconds))
        found[name] = blocks
    return found
