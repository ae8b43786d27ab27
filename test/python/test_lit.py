"""Runs the lit suite: once, for the tests that were selected, and reports each as an item."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "lit"
FILES = sorted(
    str(p.relative_to(ROOT))
    for p in ROOT.rglob("*")
    if p.suffix in (".mlir", ".py") and p.name != "lit.cfg.py" and "Inputs" not in p.parts
)


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """lit's verdict on every selected file."""
    chosen = [i.callspec.params["file"] for i in request.session.items if i.name.startswith("test_lit[")]  # type: ignore[attr-defined]
    report = tmp_path_factory.mktemp("lit") / "report.json"
    environment = {**os.environ, "PYTHONPATH": str(ROOT.parents[1] / "src")}
    command = [
        sys.executable,
        "-c",
        "from lit.main import main; main()",
        "-q",
        "-o",
        str(report),
        *(str(ROOT / c) for c in chosen),
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert report.exists(), done.stdout + done.stderr
    tests = json.loads(report.read_text())["tests"]
    return {t["name"].partition(" :: ")[2]: t for t in tests}


@pytest.mark.parametrize("file", FILES)
def test_lit(file: str, results: dict[str, dict[str, str]]) -> None:
    """A file of the lit suite."""
    assert results[file]["code"] == "PASS", results[file]["output"]
