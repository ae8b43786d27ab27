"""Ranks with a GPU each: their collectives move tensors right, and they train like one process.

Without GPUs the driver and NCCL are made of host memory and files.
"""

import job
import numpy as np
import pytest

import oneflow as flow
from oneflow.runtime.collectives import mpi, nccl
from oneflow.runtime.collectives.transport import WorldError
from oneflow.runtime.cuda import driver
from oneflow.testing.host_cuda import host_cuda

CASES = [
    (2, "boxing", "float32", "bfloat16", "bool", "int64"), (3, "boxing", "float16", "float32"),
    (2, "training", "data", "tensor", "zero"), (2, "largest"),
]  # fmt: skip


def has_two_gpus() -> bool:
    """Whether this machine has them."""
    try:
        return driver.device_count() > 1
    except driver.CudaError:
        return False


@pytest.mark.parametrize("case", CASES, ids=lambda c: "-".join(map(str, c)))
def test_ranks_of_host_memory(case: tuple) -> None:
    count, *what = case
    assert job.run("gpu_cases.py", count, "host", *what).count("is done") == count


@pytest.mark.gpu
@pytest.mark.skipif(not has_two_gpus(), reason="needs two GPUs")
@pytest.mark.parametrize("what", ["boxing", "training", "largest"])
def test_two_gpus(what: str) -> None:
    assert job.run("gpu_cases.py", 2, "gpu", what, NCCL_NVLS_ENABLE="0").count("is done") == 2


def test_ranks_in_one_process_have_no_gpu_each() -> None:
    with host_cuda(), pytest.raises(WorldError, match=r"expected a process for each of the 2 ranks on GPUs"):
        flow.tensor(np.ones(4)).to_global(flow.placement("cuda", [0, 1]), flow.sbp.split(0))


def test_ranks_without_enough_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi.MpiWorld, "near", lambda self: (0, 3))
    with host_cuda(devices=2), pytest.raises(WorldError, match=r"a GPU for each of the 3 ranks of .* got 2"):
        nccl.Gpus(mpi.MpiWorld.__new__(mpi.MpiWorld))


def test_a_type_that_nccl_does_not_add() -> None:
    with pytest.raises(WorldError, match=r"expected a type that NCCL adds .*, got complex64"):
        nccl._type(np.zeros(1, np.complex64))
