"""Random operators give one logical tensor on every mesh, simulated and on real processes."""

import job
import pytest
import random_cases


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("name", random_cases.DRAWS)
def test_simulated_ranks_draw_the_same_random_numbers(name: str, count: int) -> None:
    random_cases.check(name, list(range(count)))


def test_processes_draw_the_same_random_numbers() -> None:
    assert job.run("random_cases.py", 2).count("is done") == 2
