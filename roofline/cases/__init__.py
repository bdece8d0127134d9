"""Time the methods, one file for each; no other module of `roofline` imports the models. The list is in
listed.py."""

from portable.roofline.listed import ALL, COMPARED, OF_PROCESSES, REPORTED, Case, file, load

__all__ = ["ALL", "COMPARED", "OF_PROCESSES", "REPORTED", "Case", "file", "load"]
