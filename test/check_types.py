"""Checks the types of tests, benchmarks, documents and examples with mypy, by the settings of `test/mypy.ini`.

python test/check_types.py

Modules import others of their folder by name, so that every folder is a root of imports. `mypy -p oneflow` checks the
package itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHECKED = ("test/python", "test/fuzz", "test/conformance", "benchmarks", "docs", "examples")


def main() -> int:
    """Runs mypy; returns its exit status."""
    modules = [path for folder in CHECKED for path in (ROOT / folder).rglob("*.py")]
    folders = {path.parent for path in modules if not (path.parent / "__init__.py").exists()}
    roots = [ROOT / "src", *sorted(folders)]
    environment = {**os.environ, "MYPYPATH": os.pathsep.join(map(str, roots))}
    command = [sys.executable, "-m", "mypy", "--config-file", "test/mypy.ini", *CHECKED]
    return subprocess.run(command, cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
