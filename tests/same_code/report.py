"""Compare the IR and code of two revisions: differences found, grouped by kind, printed."""

import collections
import difflib
import re

from .normal import nameless, nameless_code, normal, normal_code

SHOWN, WIDTH, LONG = 12, 150, 3000  # lines of a difference that are printed, their width; lines compared
_WORD = re.compile(r"([-+])\s*(?:% = )?(?:tail )?(\S+)(?:.*(@[a-z][\w.]*))?")


def differing(before, after):
    """Return key -> lines removed ("-") and added ("+"), of the IR that differs after renaming."""
    found = {}
    for key in sorted(before.keys() & after.keys()):
        pair = [
            text.strip() if text.startswith("refused") else "lowered" for text in (before[key], after[key])
        ]
        if pair[0] != pair[1]:
            found[key] = [" -> ".join(pair)]
        elif before[key] != after[key]:
            a, b = normal(before[key]), normal(after[key])
            if a != b:
                found[key] = changed(nameless(a), nameless(b)) or ["the same operations on other operands"]
    return found


def changed(a, b):
    """Return the lines removed ("-") and added ("+"); of long changes only their beginning."""
    first = next((k for k, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    ends = zip(reversed(a[first:]), reversed(b[first:]))
    same = next((k for k, (x, y) in enumerate(ends) if x != y), min(len(a), len(b)) - first)
    a, b = a[first : len(a) - same][:LONG], b[first : len(b) - same][:LONG]
    return [line for line in difflib.unified_diff(a, b, lineterm="", n=0) if not line.startswith("@@")][2:]


def kind(lines):
    """Return the instructions removed and added, each named once."""
    words = {(m[1], m[3] or m[2]) for m in map(_WORD.match, lines) if m}
    named = [sign + ("label" if word == "%:" else word) for sign, word in sorted(words)]
    return " ".join(named) or (lines or ["none, a sample"])[0]


def verdict(machine, before, after):
    """Compare the code that LLVM makes: "identical", or instructions before and after."""
    a, b = normal_code(machine, before), normal_code(machine, after)
    if a == b:
        return "identical"
    counts = [sum(line.startswith("\t") and line[1] not in ".{" for line in lines) for lines in (a, b)]
    same = collections.Counter(nameless_code(a)) == collections.Counter(nameless_code(b))
    if same:
        return f"the same {counts[0]} instructions arranged otherwise"
    return f"{counts[0]} -> {counts[1]} instructions"


def show(texts, differ, codes):
    """Print the comparison and return the number of codes that differ.

    `texts` and `codes` are those before and after, by key; `differ` has the lines of each difference of text.
    """

    def seconds(members):
        return "{:.2f} -> {:.2f} s".format(*(sum(code[key][1] for key in members) for code in codes))

    verdicts = {key: verdict(key[1], codes[0][key][0], codes[1][key][0]) for key in differ}
    groups = collections.defaultdict(list)
    for key, lines in differ.items():
        groups[kind(lines)].append(key)
    for name, members in sorted(groups.items(), key=lambda item: -len(item[1])):
        others = [key for key in members if verdicts[key] != "identical"]
        alike = [key for key in members if verdicts[key] == "identical"]
        print(
            f"\n{len(members)} texts, code of {len(others)} differs, LLVM {seconds(members)}; changes: {name}"
        )
        shortest = min(others or members, key=lambda key: len(differ[key]))
        print(*(f"    {line[:WIDTH]}\n" for line in differ[shortest][:SHOWN]), sep="", end="")
        for key in others + alike[:3]:
            print(f"  {key[0]} ({key[1]}): {len(differ[key])} lines; {verdicts[key]}; LLVM {seconds([key])}")
    different = sum(v != "identical" for v in verdicts.values())
    same = sum(texts[0][key] == text for key, text in texts[1].items())
    others = sum(map(bool, differ.values()))
    print(
        f"\n{len(texts[1])} texts: {same} identical, {len(texts[1]) - same - others} after renaming, {others}"
        " differ"
    )
    print(
        f"{len(differ)} compiled: code of {len(differ) - different} identical after renaming, of {different}"
        f" not; LLVM {seconds(differ)}"
    )
    return different
