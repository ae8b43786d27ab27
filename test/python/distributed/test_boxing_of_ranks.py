"""Layouts on many ranks: simulated by threads, and real processes of MPI."""

from collections.abc import Sequence

import boxing_cases
import job
import pytest

from oneflow.dialect.dtypes import DType
from oneflow.dialect.nd_sbp import Mesh, devices
from oneflow.runtime.collectives.threads import ThreadWorld


@pytest.mark.parametrize("mesh", [(2,), (3,), (2, 2), (2, 1, 2)], ids=str)
@pytest.mark.parametrize("types", boxing_cases.DTYPES, ids=lambda types: " ".join(d.name for d in types))
def test_simulated_ranks_move_tensors_between_layouts(mesh: Mesh, types: Sequence[DType]) -> None:
    boxing_cases.check(ThreadWorld(devices(mesh)), mesh, types)


@pytest.mark.parametrize("dtype", boxing_cases.REAL, ids=lambda d: d.name)
def test_simulated_ranks_reduce_to_a_root_and_broadcast_from_it(dtype: DType) -> None:
    world = ThreadWorld(3)
    boxing_cases.check_roots(world, dtype, boxing_cases.on_host(world))


@pytest.mark.parametrize("dtype", boxing_cases.REAL, ids=lambda d: d.name)
def test_simulated_ranks_transfer_several_tensors_at_once(dtype: DType) -> None:
    world = ThreadWorld(3)
    boxing_cases.check_several(world, dtype, boxing_cases.on_host(world))


@pytest.mark.parametrize("count", [2, 3, 4])
def test_processes_move_tensors_between_layouts(count: int) -> None:
    assert job.run("boxing_cases.py", count).count("is done") == count
