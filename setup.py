"""The packages of the wheel: portable, with models/ and roofline/ in it."""

from setuptools import find_packages, setup

FOLDERS = "models", "roofline"
BESIDE = [
    "roofline.cases*",
    "roofline.peers*",
    "roofline.truth*",
]  # a checkout's: what is timed, against whom

setup(
    packages=find_packages(include=["portable", "portable.*"])
    + [
        f"portable.{name}"
        for top in FOLDERS
        for name in find_packages(include=[top, f"{top}.*"], exclude=BESIDE)
    ],
    package_dir={f"portable.{top}": top for top in FOLDERS},
)
