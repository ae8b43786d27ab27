"""Runs the lit suite: once, for the tests that were selected, and reports each as an item."""

from __future__ import annotations

import fcntl
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
    """lit's verdict on every selected file; the processes of a session share one run."""
    chosen = [i.callspec.params["file"] for i in request.session.items if i.name.startswith("test_lit[")]  # type: ignore[attr-defined]
    own = tmp_path_factory.getbasetemp()
    folder = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    report = folder / "lit.json"
    with open(folder / "lit.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not report.exists():
            _run_lit(chosen, report)
    tests = json.loads(report.read_text())["tests"]
    return {t["name"].partition(" :: ")[2]: t for t in tests}


def _run_lit(chosen: list[str], report: Path) -> None:
    """Runs lit on the chosen files, and writes the report."""
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


@pytest.mark.parametrize("file", FILES)
def test_lit(file: str, results: dict[str, dict[str, str]]) -> None:
    """A file of the lit suite."""
    assert results[file]["code"] == "PASS", results[file]["output"]
