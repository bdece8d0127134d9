"""The packages of the wheel: portable, with models/ and roofline/ in it."""

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

FOLDERS = "models", "roofline"
BESIDE = ["roofline.truth*"]  # a checkout's: planted causes, and what judges by them
TIMED = {  # of these folders what `report` times by default; other cases, and all peers, are a checkout's
    "portable.roofline.cases": ("__init__", "common", "edm", "hawkes", "layer", "methods", "mixture"),
    "portable.roofline.peers": ("__init__",),
}


class Build(build_py):
    """Modules without those that only a checkout has."""

    def find_package_modules(self, package, package_dir):
        found = super().find_package_modules(package, package_dir)
        return [one for one in found if one[1] in TIMED.get(package, (one[1],))]


setup(
    cmdclass={"build_py": Build},
    packages=find_packages(include=["portable", "portable.*"])
    + [
        f"portable.{name}"
        for top in FOLDERS
        for name in find_packages(include=[top, f"{top}.*"], exclude=BESIDE)
    ],
    package_dir={f"portable.{top}": top for top in FOLDERS},
)
