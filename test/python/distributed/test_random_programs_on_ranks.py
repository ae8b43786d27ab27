"""Random graphs under random annotations, simulated and on real processes, forward and gradients."""

import graph_cases
import job
import pytest


@pytest.mark.parametrize("ranks", [r for size in graph_cases.SIZES.values() for r in size], ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_simulated_ranks_give_the_result_of_one_process(seed: int, ranks: list[int]) -> None:
    graph_cases.check(seed, ranks)


@pytest.mark.parametrize(("seed", "ranks"), [(0, [0, 1, 2]), (1, [0, 1]), (1, [[0, 1], [2, 3]])], ids=str)
def test_operators_on_global_tensors_give_the_result_of_one_process(seed: int, ranks: list[int]) -> None:
    graph_cases.check_eager(seed, ranks)


def test_compiled_programs_keep_the_order_of_collectives() -> None:
    """In this program kernels depend on collectives in such ways that any order of these but one deadlocks."""
    graph_cases.check(5, [[0, 1], [2, 3]])


@pytest.mark.parametrize("count", [2, 4])
def test_processes_give_the_result_of_one_process(count: int) -> None:
    assert job.run("graph_cases.py", count, "2").count("is done") == count
