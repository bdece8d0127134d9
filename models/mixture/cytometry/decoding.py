"""Decode the numbers of FCS files: integers of 1 to 64 bits and floats, in any byte order."""

import re

import numpy as np

from portable.errors import InputError

_MOST_PACKED = 50  # largest number of bits of numbers that may begin within a byte


def decode(stream, kinds, bits, order, notes):
    """Decode the numbers of each channel.

    Parameters
    ----------
    stream : ndarray of uint8
        Bytes of whole events.
    kinds : str
        "I", "F" or "D" for each channel.
    bits : sequence of int
    order : str
        Value of $BYTEORD.
    notes : list of str
        Descriptions of doubtful cases are appended to it.

    Returns
    -------
    list of ndarrays, shape (n_events,)
        Unsigned integers, float32 or float64.

    Raises
    ------
    InputError
        The byte order is missing, or does not determine how such numbers are stored.
    """
    if all(own % 8 == 0 for own in bits):
        return _columns(stream, kinds, bits, [_bytes_of(order, own // 8) for own in bits])
    widths = ", ".join(map(str, dict.fromkeys(bits)))
    if set(kinds) != {"I"} or max(bits) > _MOST_PACKED:
        raise InputError(f"numbers of {widths} bits in one file are not supported")
    big = _is_big(_significance(order))
    if big is None:
        raise InputError(f"$BYTEORD is '{order}', which does not apply to numbers that share bytes")
    if not big:
        notes.append(
            f"numbers of {widths} bits with $BYTEORD {order}: read from the lowest bit of a byte on, where a "
            "program may mean the highest"
        )
    return _packed(stream, bits, big)


def _significance(text):
    """Return the significance of each byte, from 0, in the order of storage; `text` is $BYTEORD."""
    order = [int(digit) - 1 for digit in re.findall("[1-9]", text)]
    listed = re.fullmatch(r"\s*[1-9](\s*,\s*[1-9])*\s*", text)
    if not listed or len(order) not in (1, 2, 4, 8) or sorted(order) != list(range(len(order))):
        raise InputError(f"$BYTEORD is '{text}'; expected an order of bytes such as 1,2,3,4")
    return order


def _is_big(order):
    """Return True if the most significant byte is first, False if it is last; None if the order is neither of
    these."""
    if len(order) > 1 and order in (sorted(order), sorted(order)[::-1]):
        return order[0] > 0
    return None


def _bytes_of(text, width):
    """Return the positions of a number's bytes, the least significant first."""
    if width == 1:
        return [0]
    order = _significance(text)
    if _is_big(order) is not None:
        return sorted(range(width), reverse=_is_big(order))
    if len(order) != width or list(map(order.index, range(width))) != order:  # else ambiguous
        raise InputError(f"$BYTEORD is '{text}', which does not define the order of {width} bytes")
    return order


def _columns(stream, kinds, bits, orders):
    """Return the numbers of channels whose widths are whole bytes."""
    raw, at, found = stream.reshape(-1, sum(bits) // 8), 0, []
    for kind, own, order in zip(kinds, bits, orders):
        width = own // 8
        room = 1 << (width - 1).bit_length()
        cells, by, code = raw[:, at : at + width], "<", "u" if kind == "I" else "f"
        if width == room and order == sorted(order, reverse=True):
            by = ">"
        elif width != room or order != sorted(order):
            cells = np.zeros((len(raw), room), np.uint8)
            cells[:, :width] = raw[:, [at + place for place in order]]
        found.append(cells.view(f"{by}{code}{room}")[:, 0])
        at += width
    return found


def _packed(stream, bits, big):
    """Return numbers that are stored without gaps, and may begin within a byte."""
    n_events = 8 * len(stream) // sum(bits)
    every = np.unpackbits(stream, count=n_events * sum(bits), bitorder="big" if big else "little")
    parts = np.split(every.reshape(n_events, sum(bits)), np.cumsum(bits)[:-1], axis=1)
    powers = (np.uint64(1) << np.arange(own, dtype=np.uint64) for own in bits)
    return [part @ (own[::-1] if big else own) for part, own in zip(parts, powers)]
