"""Images, sound and places: bytes and halves, angles, sums of cosines.

python docs/examples/fields/images.py [space]
"""

import math
import sys

import numpy as np

import portable as pk

PALETTE = np.array([[0, 0, 0], [255, 0, 0], [0, 200, 30], [20, 20, 250], [255, 255, 255]], np.uint8)
RADIUS = 6371.0088  # km


@pk.kernel
def sobel(i, j, image, strength, direction):
    """Edges of a picture of bytes: a difference of bytes does not wrap, it is an int32."""
    gx = (
        (image[i, j + 2] - image[i, j])
        + 2 * (image[i + 1, j + 2] - image[i + 1, j])
        + (image[i + 2, j + 2] - image[i + 2, j])
    )
    gy = (
        (image[i + 2, j] - image[i, j])
        + 2 * (image[i + 2, j + 1] - image[i, j + 1])
        + (image[i + 2, j + 2] - image[i, j + 2])
    )
    strength[i, j] = math.hypot(gx, gy)
    direction[i, j] = math.degrees(math.atan2(gy, gx))


def a_picture():
    image = np.random.default_rng(1).integers(0, 256, (22, 33)).astype(np.uint8)
    v, shape = image.astype(float), (20, 31)
    gx = sum(w * (v[a : a + 20, 2:] - v[a : a + 20, :-2]) for a, w in ((0, 1), (1, 2), (2, 1)))
    gy = sum(w * (v[2:, b : b + 31] - v[:-2, b : b + 31]) for b, w in ((0, 1), (1, 2), (2, 1)))
    return (
        pk.MDRangePolicy((0, 0), shape),
        (image, np.zeros(shape), np.zeros(shape)),
        2,
        np.degrees(np.arctan2(gy, gx)),
    )


@pk.kernel
def nearest_colour(i, pixels, labels):
    """The number of the palette's colour that is next to a pixel: labels of uint8, a table of a palette."""
    best = 1 << 30
    for k, colour in enumerate(PALETTE):
        away = 0
        for own, its in zip(pixels[i], colour):
            away += (own - its) ** 2
        if away < best:
            best = away
            labels[i] = k


def pixels():
    p = np.random.default_rng(2).integers(0, 256, (70, 3)).astype(np.uint8)
    return (
        70,
        (p, np.zeros(70, np.uint8)),
        1,
        ((p[:, None].astype(int) - PALETTE.astype(int)) ** 2).sum(2).argmin(1),
    )


@pk.kernel
def brightened(i, light, exponent, shown):
    """Light in halves as bytes, by a gamma correction."""
    shown[i] = round(min(255.0 * light[i] ** exponent, 255.0))


def light():
    x = np.random.default_rng(3).uniform(0, 1.3, 90).astype(np.float16)
    y = np.float32(255) * x.astype(np.float32) ** np.float32(0.45)
    return 90, (x, 0.45, np.zeros(90, np.uint8)), 2, np.rint(np.minimum(y, 255))


@pk.kernel
def mixed(i, left, right, balance, out):
    """Two tracks of int16 as one; what is too loud is held at the ends."""
    out[i] = round(pk.clip(balance * left[i] + (2.0 - balance) * right[i], -32768.0, 32767.0))


def tracks():
    a, b = np.random.default_rng(4).integers(-32768, 32768, (2, 100)).astype(np.int16)
    a, b = a // 2, b // 3
    return 100, (a, b, 0.75, np.zeros(100, np.int16)), 3, np.clip(np.rint(0.75 * a + 1.25 * b), -32768, 32767)


@pk.kernel
def fourier(k, signal, out):
    """A Fourier sum at each frequency."""
    total = 0j
    for j, z in enumerate(signal):
        turn = -2.0 * math.pi * (j * k % len(signal)) / len(signal)
        total += z * complex(math.cos(turn), math.sin(turn))
    out[k] = total


def a_signal():
    x, y = np.random.default_rng(5).normal(size=(2, 60))
    return 60, (x + 1j * y, np.zeros(60, complex)), 1, np.fft.fft(x + 1j * y)


@pk.kernel
def routes(i, places, away, bearing):
    """Great circles from place to place: kilometres by haversines, and the first bearing in degrees."""
    lat1, lon1, lat2, lon2 = (
        math.radians(places[i, 0]),
        math.radians(places[i, 1]),
        math.radians(places[i + 1, 0]),
        math.radians(places[i + 1, 1]),
    )
    h = (
        math.sin(0.5 * (lat2 - lat1)) ** 2
        + math.cos(lat1) * math.cos(lat2) * math.sin(0.5 * (lon2 - lon1)) ** 2
    )
    away[i] = 2.0 * RADIUS * math.asin(math.sqrt(min(h, 1.0)))
    y, x = (
        math.sin(lon2 - lon1) * math.cos(lat2),
        math.cos(lat1) * math.sin(lat2) - math.sin(lat1) * math.cos(lat2) * math.cos(lon2 - lon1),
    )
    bearing[i] = math.degrees(math.atan2(y, x)) % 360.0


def cities():
    rng = np.random.default_rng(6)
    places = np.stack([rng.uniform(-80, 80, 41), rng.uniform(-180, 180, 41)], 1)
    lat, lon = np.radians(places).T
    xyz = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
    angle = np.arctan2(
        np.linalg.norm(np.cross(xyz[:, :-1].T, xyz[:, 1:].T), axis=1), (xyz[:, :-1] * xyz[:, 1:]).sum(0)
    )
    return 40, (places, np.zeros(40), np.zeros(40)), 1, RADIUS * angle


EXAMPLES = [
    (sobel, a_picture),
    (nearest_colour, pixels),
    (brightened, light),
    (mixed, tracks),
    (fourier, a_signal),
    (routes, cities),
]

if __name__ == "__main__":
    with pk.use(*sys.argv[1:] or ["threads"]) as space:
        for kernel, make in EXAMPLES:
            policy, args, k, expected = make()
            args = [pk.copy_of(a) if isinstance(a, np.ndarray) else a for a in args]
            pk.parallel_for(policy, kernel, *args)
            np.testing.assert_allclose(args[k].to_numpy(), expected, rtol=1e-9, atol=1e-9)
            print(f"{kernel.name} on {space}: right")
