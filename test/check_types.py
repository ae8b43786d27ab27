"""Checks the types of benchmarks, documents, examples and tests with mypy.

python test/check_types.py

Benchmarks, documents and examples have the strict settings of the package, tests the settings of `test/mypy.ini`.
Modules import others of their folder by name, so that every folder is a root of imports. `mypy -p oneflow` checks the
package itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: The checked folders by the file of settings.
CHECKED = {
    "pyproject.toml": ("benchmarks", "docs", "examples"),
    "test/mypy.ini": ("test/python", "test/fuzz", "test/conformance"),
}


def main() -> int:
    """Runs mypy for each file of settings; returns 1 after an error of any run."""
    modules = [path for folders in CHECKED.values() for folder in folders for path in (ROOT / folder).rglob("*.py")]
    roots = {path.parent for path in modules if not (path.parent / "__init__.py").exists()}
    environment = {**os.environ, "MYPYPATH": os.pathsep.join(map(str, [ROOT / "src", *sorted(roots)]))}
    status = 0
    for settings, folders in CHECKED.items():
        command = [sys.executable, "-m", "mypy", "--config-file", settings, *folders]
        status |= subprocess.run(command, cwd=ROOT, env=environment).returncode
    return status


if __name__ == "__main__":
    sys.exit(main())
