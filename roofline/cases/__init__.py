"""Time the methods, one file for each; no other module of `roofline` imports the models. The list is in
case_list.py."""

from portable.roofline.case_list import ALL, COMPARED, OF_PROCESSES, REPORTED, Case, file, load

__all__ = ["ALL", "COMPARED", "OF_PROCESSES", "REPORTED", "Case", "file", "load"]
