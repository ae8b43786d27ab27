"""`benchmarks/gpu_session.py`: stages end in limited time, also if commands hang."""

import importlib.util
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "gpu_session.py"


@pytest.fixture(scope="module")
def session():
    spec = importlib.util.spec_from_file_location("gpu_session", FILE)
    assert spec and spec.loader
    module = sys.modules["gpu_session"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["gpu_session"]


def python(session, name, code, **environment):
    return session.Job(name, [sys.executable, "-c", code], environment)


def test_jobs_run_in_parallel_and_report_their_status(session, tmp_path):
    # Each waits for the file that the other writes.
    exchange = (
        f"import os, pathlib, time; here = pathlib.Path({str(tmp_path)!r}); (here / os.environ['MINE']).touch()\n"
        "while not (here / os.environ['OTHER']).exists(): time.sleep(0.01)\n"
        "print('met')"
    )
    jobs = [python(session, n, exchange, MINE=n, OTHER=o) for n, o in (("a", "b"), ("b", "a"))]
    bad = python(session, "bad", "import sys; print('1 failed'); sys.exit(1)")
    outcomes = session.run_all([session.Stage(jobs), session.Stage([bad])], 120.0, tmp_path / "out")
    assert [(o.job.name, o.status, o.last) for o in outcomes] == [
        ("a", 0, "met"),
        ("b", 0, "met"),
        ("bad", 1, "1 failed"),
    ]
    assert (tmp_path / "out" / "summary.txt").read_text().count("status") == 3


def test_expired_stages_are_reported(session, tmp_path):
    slow = python(session, "slow", "import time; print('half', flush=True); time.sleep(600)")
    later = session.Stage([python(session, "later", "print('whole')")])
    outcomes = session.run_all([session.Stage([slow], 0.1), later], 60.0, tmp_path)
    assert [(o.status, o.last) for o in outcomes] == [(None, "half"), (0, "whole")]
    assert session.run_all([later], 0.0, tmp_path) == []


def test_samples_are_divided_between_jobs(session, tmp_path):
    first = session.stages(3, tmp_path)[0]
    shards = [j.environment["ONEFLOW_TEST_SHARD"] for j in first.jobs if j.environment]
    assert shards == ["0/3", "1/3", "2/3"] and len(first.jobs) == 4
    assert all((FILE.parents[1] / session.TESTS).exists() for _ in first.jobs)
