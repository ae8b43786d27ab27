"""All tests and benchmarks that need a GPU, in one run of limited time: tests on the device, then benchmarks.

    python benchmarks/gpu_session.py [--budget 570] [--processes 12] [--output FOLDER]

The output of each stage is a file of the folder; `summary.txt` has the status of each stage. A stage that runs out of
time keeps the files written so far; benchmarks get all the remaining time. Tests are distributed over processes that
compile in parallel. The exit status is 0 if all tests passed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS = "test/python/runtime/cuda/test_on_gpu.py"
#: Tests that are long, or about memory and the whole machine, and stay out.
OMITTED = "not test_sample and not sanitizer and not compiles"


@dataclass(frozen=True)
class Job:
    """A command, and further environment variables of the command."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Stage:
    """Jobs side by side, which may take up to `share` of the time that is left."""

    jobs: Sequence[Job]
    share: float = 1.0


@dataclass(frozen=True)
class Outcome:
    """The outcome of a job: the exit status, None if time ran out."""

    job: Job
    status: int | None
    seconds: float
    last: str

    def __str__(self) -> str:
        ended = "out of time" if self.status is None else f"status {self.status}"
        return f"{self.job.name}: {ended} after {self.seconds:.0f} s: {self.last}"


def stages(processes: int, folder: Path) -> list[Stage]:
    """The stages: all samples of operators and the other device tests, then benchmarks, then the first call."""
    alone = ["-o", "addopts=", "-p", "no:cacheprovider"]
    pytest = [sys.executable, "-m", "pytest", *alone, "-q", "-m", "gpu", TESTS, "-k"]
    shards = [
        Job(f"samples_{i}", [*pytest, "test_sample"], {"ONEFLOW_TEST_SHARD": f"{i}/{processes}"})
        for i in range(processes)
    ]
    figures = [sys.executable, str(HERE / "gpu.py"), "--no-compile", "--rounds", "10", "--output"]
    groups = "attention,steps,matmul,rows,pointwise,launches,images"
    return [
        Stage([*shards, Job("programs", [*pytest, OMITTED])], 0.55),
        Stage([Job("figures", [*figures, str(folder / "results_gpu.md"), "--groups", groups])]),
        Stage([Job("first_call", [*figures, str(folder / "first_call.md"), "--groups", "launches", "--first-call"])]),
    ]


def run_all(planned: Sequence[Stage], budget: float, folder: Path) -> list[Outcome]:
    """Runs stages in order until `budget` seconds are over; the summary is written after each stage."""
    folder.mkdir(parents=True, exist_ok=True)
    end, outcomes = time.monotonic() + budget, list[Outcome]()
    for stage in planned:
        left = end - time.monotonic()
        if left <= 0:
            break
        outcomes += run_stage(stage, left * stage.share, folder)
        (folder / "summary.txt").write_text("".join(f"{o}\n" for o in outcomes), encoding="utf-8")
    return outcomes


def run_stage(stage: Stage, limit: float, folder: Path) -> list[Outcome]:
    """Runs the jobs of a stage side by side, for at most `limit` seconds."""
    start, started = time.monotonic(), []
    for job in stage.jobs:
        with (folder / f"{job.name}.txt").open("w", encoding="utf-8") as log:
            environment = {**os.environ, **job.environment}
            started.append(subprocess.Popen(job.command, cwd=HERE.parent, env=environment, stdout=log, stderr=log))
    outcomes = []
    for job, process in zip(stage.jobs, started, strict=True):
        status = _wait(process, max(start + limit - time.monotonic(), 0.0))
        lines = (folder / f"{job.name}.txt").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        outcomes.append(Outcome(job, status, time.monotonic() - start, lines[-1] if lines else ""))
    return outcomes


def _wait(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """The exit status of a process, None if the process was killed."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None


def main() -> int:
    """Runs everything, prints the summary; 0 if all tests passed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", type=float, default=570.0, help="seconds for everything")
    parser.add_argument("--processes", type=int, default=12, help="processes that the samples are shared out over")
    parser.add_argument("--output", type=Path, default=Path("gpu_session"), help="the folder for logs and tables")
    options = parser.parse_args()
    outcomes = run_all(stages(options.processes, options.output.resolve()), options.budget, options.output.resolve())
    print("".join(f"{o}\n" for o in outcomes), end="")
    tests = [o for o in outcomes if o.job.name not in ("figures", "first_call")]
    return int(any(o.status for o in tests) or any(o.status is None for o in tests))


if __name__ == "__main__":
    sys.exit(main())
