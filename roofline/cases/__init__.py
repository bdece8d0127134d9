"""Time the methods. One file for each; nothing else in `roofline` knows the models. The list is in
listed.py."""

from portable.roofline.listed import ALL, COMPARED, OF_PROCESSES, REPORTED, Case, file, load

__all__ = ["ALL", "COMPARED", "OF_PROCESSES", "REPORTED", "Case", "file", "load"]
