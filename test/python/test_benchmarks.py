"""Scripts in `benchmarks/` import from each other what exists, and know their options."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
SCRIPTS = {path.stem: ast.parse(path.read_text()) for path in sorted(FOLDER.glob("*.py"))}


def defined(tree):
    """The names that a module defines."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name for alias in node.names)


@pytest.mark.parametrize("name", SCRIPTS)
def test_names_from_other_scripts_exist(name):
    imports = [n for n in ast.walk(SCRIPTS[name]) if isinstance(n, ast.ImportFrom) and n.module in SCRIPTS]
    names = [(n.module or "", alias.name) for n in imports for alias in n.names]
    missing = [(script, n) for script, n in names if n not in set(defined(SCRIPTS[script]))]
    assert not missing


def test_times_of_calls_become_a_row():
    code = (
        "from alternating import cells, measured, table\n"
        "print(cells([[2e-3] * 4, [4e-3] * 4], 3), measured([lambda: 1, lambda: 2], 3))\n"
        "print(table('| a | b |', ['| 1 | 2 |']))"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=FOLDER, capture_output=True, text=True, check=True)
    assert ended.stdout.startswith("['2.00 ms', '4.00 ms', '', '2.00', '', '0%'] [[")
    assert ended.stdout.strip().endswith("['| a | b |', '| --- | --- |', '| 1 | 2 |']")
