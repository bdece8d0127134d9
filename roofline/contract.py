"""Define the interface of a case or a peer: callables with words around them. Nothing here times or
draws."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Work:
    """Amount of work of one call, in the convention that the case states.

    Parameters
    ----------
    pairs : float, optional
        Pairs of the full double sum that the answer stands for, visited or not.
    flops : float, optional
        Floating-point operations of the text, FMA = 2.
    bytes : float, optional
        Bytes of every input and output touched once.
    """

    pairs: float | None = None
    flops: float | None = None
    bytes: float | None = None


@dataclass(frozen=True)
class Run:
    """One method on one input, ready to be timed for the report.

    Parameters
    ----------
    method : str
    source : str
        The input in words: a file, or how it was simulated.
    size : int
    unit : str
        What `size` counts, in the plural.
    call : callable without arguments
        What is timed; returns the method's value, a number by which runs on one source can be compared.
    work : Work
    sync : callable, optional
        Waits for the work of `call`, where it returns before that is done.
    """

    method: str
    source: str
    size: int
    unit: str
    call: Callable[[], float | None]
    work: Work = Work()
    sync: Callable[[], None] | None = None

    def complete(self):
        """Call, and wait for the end of its work."""
        self.call()
        if self.sync:
            self.sync()


@dataclass(frozen=True)
class Contender:
    """One side of a duel.

    Parameters
    ----------
    label : str
    call : callable without arguments
        What is timed.
    sync : callable, optional
        Waits for the work of `call`, where it returns before that is done.
    result : callable, optional
        The number on which both sides must agree, asked for after timing.
    file : str
        The file of `portable.roofline.peers` that has it; empty where the layer itself is the peer.
    """

    label: str
    call: Callable[[], object]
    sync: Callable[[], None] | None = None
    result: Callable[[], float] | None = None
    file: str = ""


@dataclass(frozen=True)
class Duel:
    """Ours against its peers, on one input.

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
        The caller's time is what counts, not the end of the work; calls per sample then stay below a device's
        queue.
    bytes : float, optional
        Bytes that the work must move; the table then says at what rate ours moves them.
    flops : float, optional
        Floating-point operations of the work, FMA = 2; the table then says at what rate ours does them.
    best : bool
        Also compare the best rounds: what a machine can do is what it was seen to do, and the rest its
        neighbours'.
    ceiling : callable, optional
        Operations a second that the machine can do, asked for after timing; the table then says what share
        ours reaches.
    rounds : int, optional
        Samples of each side where nobody says how many: for calls that take minutes.
    told : callable of the table's rows, optional
        Words below the table, asked for after timing and the results.
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
