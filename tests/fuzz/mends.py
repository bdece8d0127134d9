"""The mends of defects that programs found, to be taken back one at a time: (item, what, file, text now, text without the mend)."""

MENDS = []
