"""What a backend is: the functions that dispatch.py calls, and what must hold after each.

A backend is a module-like object registered under a space's name (registry.py). The conformance suite (tests/conformance)
is a function of the space: a new backend is done when it passes.

    prepare(space, kernel, policy_kind, specs, reducers) -> compiled
        Compiles, or takes from memory or disk. Raises LanguageError or LoweringError with the kernel's file and line,
        never the compiler's own error.
    run_for(space, compiled, policy, words)
        Every index of the policy has run, or is queued on the space's stream, when this returns.
    run(pattern, space, compiled, policy, words, outs) -> tuple, one result a reducer; None with outs
        `pattern` is "reduce" or "scan". Python numbers, or tuples of them where a reducer has several. An index of a box is
        its place counted row by row. With `outs`, one-element views, the numbers go there and nobody waits for them. The
        last argument of a scan holds the prefixes.
    plan_for(space, compiled, policy, words) -> callable
        Does what run_for does, with as little as possible left to do.
    sequence(space, recorded) -> callable
        Runs recorded launches, pairs of (what dispatch.bind returned, Launch), one after the other. Keeps them alive.
    lock
        A context manager that a launch holds: one that does nothing, where launches of several threads go side by side.
    fence(space)
        Everything queued before has finished.
    stamp(space) -> mark
        Of the time when everything queued before has finished; `mark.seconds_since(earlier)`.
    explain(space, kernel, policy, policy_kind, specs) -> (dict of facts, accesses, the typed tree as a text)
    listing(space, kernel, policy, policy_kind, specs, reducers) -> str, the machine code; not of "checked"
    count.counted(space, kernel, policy, policy_kind, specs, reducers, words, build) -> dict
        What portable.count returns, in a module of its own; not of "checked".

`policy_kind` is "range", "team", "box2", "box3", "scan inclusive" or "scan exclusive"; `words` is the argument block of
compiler/signature.py as bytes. The checked space compiles to Python: its `prepare` refuses what compilers would refuse, and
dispatch hands it the arguments themselves, which it watches.
"""
