"""Random graphs under random annotations, simulated and on real processes, forward and gradients."""

import graph_cases
import job
import pytest


@pytest.mark.parametrize("ranks", [r for size in graph_cases.SIZES.values() for r in size], ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_simulated_ranks_give_the_result_of_one_process(seed: int, ranks: list[int]) -> None:
    graph_cases.check(seed, ranks)


@pytest.mark.parametrize("count", [2, 4])
def test_processes_give_the_result_of_one_process(count: int) -> None:
    assert job.run("graph_cases.py", count, "2").count("is done") == count
