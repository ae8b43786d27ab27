"""Embedding tables with global ids, simulated and on real processes."""

from pathlib import Path

import embedding_cases
import job

import oneflow as flow


def test_simulated_ranks_share_rows(tmp_path: Path) -> None:
    embedding_cases.check([0, 1], str(tmp_path), flow.sbp.broadcast)


def test_processes_share_rows(tmp_path: Path) -> None:
    assert job.run("embedding_cases.py", 2, str(tmp_path)).count("is done") == 2
