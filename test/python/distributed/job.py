"""Runs a Python file as the ranks of an MPI job."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO

from oneflow.tools.ranks import launcher

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent
#: The seconds that a job may take.
LIMIT = 300


def environment(**more: str) -> dict[str, str]:
    """The environment of this process, in which the sources and this folder are found."""
    path = filter(None, [str(ROOT / "src"), str(HERE), os.environ.get("PYTHONPATH")])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), **more}


def start(
    file: str, count: int, *arguments: str, output: IO[str] | None = None, **more: str
) -> subprocess.Popen[str]:
    """A file of this folder as a job of `count` ranks, which prints into `output`, or pipes."""
    command = [*launcher(), "-n", str(count), sys.executable, str(HERE / file), *arguments]
    known, streams = environment(**more), output or subprocess.PIPE
    return subprocess.Popen(command, env=known, stdout=streams, stderr=streams, text=True)


def run(file: str, count: int, *arguments: str, **more: str) -> str:
    """The output of a job that succeeds; a job that does not end is killed."""
    with start(file, count, *arguments, output=None, **more) as job:
        try:
            output, errors = job.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            job.kill()
            raise
    assert job.returncode == 0, output + errors
    return output
