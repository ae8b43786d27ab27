"""A short run of the fuzzer of mutated files; the fuzzer finds, distinguishes and shrinks faults."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).parents[1] / "fuzz"
#: A fuzzer whose cases die, hang, raise or cannot be made, as a line of the case states.
FAULTY = """
import os, sys
from common import main, without_lines

class Faulty:
    suffix, limit = ".txt", 0.5

    def make(self, random):
        lines = [f"line {n}" for n in range(9)]
        lines[random.randrange(9)] = random.choice(["die", "hang", "raise", "right", "unmade"])
        if "unmade" in lines:
            raise KeyError("unmade")
        return "\\n".join(lines) + "\\n"

    def check(self, case):
        if "die" in case:
            os.abort()
        while "hang" in case:
            pass
        if "raise" in case:
            raise ValueError("raised")

    smaller = staticmethod(without_lines)

if __name__ == "__main__":
    sys.exit(main(Faulty()))
"""


def run(script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(FUZZ)})


def test_mutated_files(tmp_path: Path) -> None:
    done = run(FUZZ / "files.py", "--count", "40", "--seed", "1", "--jobs", "1", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "40 cases, 0 faults of 0 kinds" in done.stdout


def test_fuzzing_night_shares_cases_and_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fuzzer gets its share of the cases and the seed; a fault of one is a fault of the night."""
    monkeypatch.syspath_prepend(str(FUZZ))
    nightly = importlib.import_module("nightly")
    commands = []

    def ran(command: list[str], check: bool) -> subprocess.CompletedProcess[str]:
        commands.append([Path(command[1]).name, *command[2:6]])
        return subprocess.CompletedProcess(command, int("programs.py" in command[1]))

    monkeypatch.setattr(nightly.subprocess, "run", ran)
    monkeypatch.setattr(nightly.importlib.util, "find_spec", lambda name: None)
    assert nightly.main(["--seed", "7", "--share", "0.01", "--out", str(tmp_path)]) == 1
    numbers = [("files.py", "1000"), ("programs.py", "100")]
    assert commands == [[script, "--count", count, "--seed", "7"] for script, count in numbers]
    assert nightly.main(["--fuzzers", "files", "--seed", "8"]) == 0
    assert commands[2:] == [["files.py", "--count", "100000", "--seed", "8"]]


def test_faults_are_found_and_shrunk(tmp_path: Path) -> None:
    (tmp_path / "faulty.py").write_text(FAULTY)
    done = run(tmp_path / "faulty.py", "--count", "20", "--jobs", "1", "--out", str(tmp_path / "found"))
    assert done.returncode == 1, done.stderr
    assert all(kind in done.stdout for kind in ("crash: SIGABRT", "hang: more than", "exception: ValueError: raised"))
    assert "make: exception: KeyError: 'unmade'" in done.stdout
    assert "20 cases, " in done.stdout
    found = {path.read_text(): path for path in (tmp_path / "found").iterdir()}
    number = next(case for case in found if case.startswith("0/"))
    assert found.keys() == {number, "die\n", "hang\n", "raise\n"}
    again = run(tmp_path / "faulty.py", str(found["die\n"]), "--out", str(tmp_path / "again"))
    assert "1 cases, 1 faults of 1 kinds" in again.stdout
