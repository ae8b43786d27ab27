"""How many processors of a machine each of its ranks uses."""

import pytest

from oneflow.runtime.collectives.mpi import _thread_share

ALL = frozenset(range(8))
HALVES = frozenset(range(4)), frozenset(range(4, 8))


@pytest.mark.parametrize(
    ("allowed", "parts"),
    [
        ([ALL], [8]),
        ([ALL] * 4, [2] * 4),
        ([ALL] * 16, [1] * 16),
        (HALVES, [4, 4]),
        ([*HALVES, *HALVES], [2] * 4),
        ([*HALVES, ALL], [2, 2, 2]),
    ],
)
def test_threads_of_ranks_divide_the_allowed_processors(allowed, parts):
    assert [_thread_share(row, allowed) for row in range(len(allowed))] == parts
