"""FileCheck as a command of the fork server: `filecheck`, the Python package, with its modules loaded."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from filecheck.main import main as file_check


def main(arguments: Sequence[str]) -> int:
    """Runs FileCheck; returns its exit status."""
    file_check(["FileCheck", *arguments])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
