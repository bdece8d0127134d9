"""Statistical methods written against the public names of `portable`; one folder a method, none imports
another."""

import sys

if __name__ == "models":  # its former name
    raise (SystemExit if sys.argv[:1] == ["-m"] else ImportError)(
        "the methods are portable.models (from portable.models import edm; python -m portable.models.edm)"
    )
