"""Start other processes of Python."""

import subprocess
import sys


def python(*arguments, check=True, **options):
    """Run this Python with arguments; return the finished process, whose output is text."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=check, **options)
