"""Training under each layout, simulated and on real processes, equals training in one process."""

import job
import pytest
import training_cases


@pytest.mark.parametrize("name", training_cases.LAYOUTS)
def test_simulated_ranks_train_like_one_process(name: str) -> None:
    training_cases.check(name, [0, 1])


@pytest.mark.parametrize("count", [2, 4])
def test_processes_train_like_one_process(count: int) -> None:
    assert job.run("training_cases.py", count).count("is done") == count
