"""Define the interface of a case or a peer: callables with descriptions. This module neither times nor
plots."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Run:
    """Store one method on one input, ready to be timed for the report.

    Parameters
    ----------
    method : str
    source : str
        The input in words: a file, or the kind of simulation.
    size : int
    unit : str
        The unit of `size`, in the plural.
    call : callable without arguments
        The timed call; returns the method's value, a number by which runs on one source can be compared.
    sync : callable, optional
        Blocks until the work of `call` is done, if `call` returns before that.
    """

    method: str
    source: str
    size: int
    unit: str
    call: Callable[[], float | None]
    sync: Callable[[], None] | None = None

    def complete(self):
        """Call, and block until its work is done."""
        self.call()
        if self.sync:
            self.sync()


@dataclass(frozen=True)
class Contender:
    """Store one side of a duel.

    Parameters
    ----------
    label : str
    call : callable without arguments
        The timed call.
    sync : callable, optional
        Blocks until the work of `call` is done, if `call` returns before that.
    result : callable, optional
        Returns the number on which both sides must agree; called after timing.
    file : str
        The file of `portable.roofline.peers` that defines it; empty if the layer itself is the peer.
    """

    label: str
    call: Callable[[], object]
    sync: Callable[[], None] | None = None
    result: Callable[[], float] | None = None
    file: str = ""


@dataclass(frozen=True)
class Duel:
    """Store ours and its peers, on one input.

    Parameters
    ----------
    title : str
        The work in words, with its size.
    ours : Contender
    peers : list of Contender
    absent : list of (str, str)
        Peers that cannot run here, each with the reason.
    tolerance : float
        The largest relative difference of results that counts as agreement.
    host_only : bool
        Whether only the caller's time counts, not the end of the work; the calls of a sample then fit into a
        device's queue.
    bytes : float, optional
        Bytes that the work must move; the table then states the rate at which ours moves them.
    flops : float, optional
        Floating-point operations of the work, FMA = 2; the table then states the rate of ours.
    best : bool
        Also compare the best rounds: the best measured rate is that of the machine, the rest is affected by
        other work.
    ceiling : callable, optional
        Returns the machine's peak in operations per second; called after timing; the table then states the
        share that ours reaches.
    rounds : int, optional
        Samples of each side if no number is given: for calls that take minutes.
    told : callable of the table's rows, optional
        Returns words below the table; called after timing and the results.
    """

    title: str
    ours: Contender
    peers: list[Contender]
    absent: list[tuple[str, str]] = field(default_factory=list)
    tolerance: float = 0.0
    host_only: bool = False
    bytes: float | None = None
    flops: float | None = None
    best: bool = False
    ceiling: Callable[[], float] | None = None
    rounds: int | None = None
    told: Callable[[list], str] | None = None
