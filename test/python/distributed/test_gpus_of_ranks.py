"""Ranks with a GPU each: collectives move tensors correctly, and training equals training in one process.

Without GPUs, host memory and files simulate the driver and NCCL.
"""

import ctypes
import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import job
import numpy as np
import pytest

import oneflow as flow
from oneflow.runtime.collectives import mpi, nccl
from oneflow.runtime.collectives.transport import WorldError
from oneflow.runtime.cuda import driver
from oneflow.testing.host_cuda import host_cuda
from oneflow.testing.host_nccl import host_nccl

BENCHMARK = job.ROOT / "benchmarks/sbp_gpu.py"
CASES = [
    (2, "boxing", "float32", "bfloat16", "bool", "int64"), (3, "boxing", "float16", "float32"),
    (2, "training", "data", "tensor", "zero"), (2, "largest"), (2, "precision"), (2, "stages"),
    (2, "graphs"), (3, "graphs"), (2, "moving"),
]  # fmt: skip


def has_two_gpus() -> bool:
    """Whether this machine has the GPUs."""
    try:
        return driver.device_count() > 1
    except driver.CudaError:
        return False


@pytest.mark.parametrize("case", CASES, ids=lambda c: "-".join(map(str, c)))
def test_collectives_on_host_memory(case: tuple[Any, ...]) -> None:
    count, *what = case
    assert job.run("gpu_cases.py", count, "host", *what).count("is done") == count


@pytest.mark.gpu
@pytest.mark.skipif(not has_two_gpus(), reason="needs two GPUs")
@pytest.mark.parametrize("what", ["boxing", "training", "largest", "precision", "stages", "graphs", "moving"])
def test_collectives_on_two_gpus(what: str) -> None:
    assert job.run("gpu_cases.py", 2, "gpu", what, NCCL_NVLS_ENABLE="0").count("is done") == 2


@pytest.mark.gpu
@pytest.mark.skipif(not has_two_gpus(), reason="needs two GPUs")
def test_a_program_in_a_file_runs_on_two_gpus(tmp_path: Path) -> None:
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    np.savez(tmp_path / "in.npz", x=x, w=np.eye(3, dtype=np.float32))
    program, out = job.ROOT / "test/lit/tools/run_ranks.mlir", tmp_path / "out.npz"
    options = ["--input", str(tmp_path / "in.npz"), "--output", str(out), "--nproc", "2", "--device", "cuda"]
    done = command("-m", "oneflow.tools.oneflow_run", str(program), *options)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(out)["y"], x.sum(0))


@pytest.mark.gpu
@pytest.mark.skipif(not has_two_gpus(), reason="needs two GPUs")
def test_a_dead_rank_ends_a_rank_that_waits_for_its_gpu() -> None:
    with job.start("fault_cases.py", 2, "die", "cuda", NCCL_NVLS_ENABLE="0") as ranks:
        errors = ranks.communicate(timeout=120)[1]
    assert ranks.returncode != 0 and "oneflow: error: rank 1 (process" in errors, errors


@pytest.mark.gpu
@pytest.mark.skipif(not has_two_gpus(), reason="needs two GPUs")
def test_benchmark_on_two_gpus() -> None:
    done = command(str(BENCHMARK), "--groups", "reduce,mlp")
    assert done.returncode == 0, done.stdout + done.stderr


def test_benchmark_on_host_memory() -> None:
    done = command(str(BENCHMARK), "--groups", "reduce", "--host")
    assert done.returncode == 0 and "| 256 bytes |" in done.stdout, done.stdout + done.stderr


def command(*line: str) -> subprocess.CompletedProcess[str]:
    """Python with a command of the project."""
    known = job.environment(NCCL_NVLS_ENABLE="0")
    line = (sys.executable, *line)
    return subprocess.run(line, env=known, capture_output=True, text=True, timeout=job.LIMIT, check=False)


def test_simulated_ranks_on_gpus_are_refused() -> None:
    with host_cuda(), pytest.raises(WorldError, match=r"expected a process for each of the 2 ranks on GPUs"):
        flow.tensor(np.ones(4)).to_global(flow.placement("cuda", [0, 1]), flow.sbp.split(0))


def test_one_rank_on_a_gpu_needs_no_launcher() -> None:
    with host_cuda():
        x = flow.tensor(np.arange(4.0)).to_global(flow.placement("cuda", [0]), flow.sbp.split(0))
        np.testing.assert_array_equal((x * 2).numpy(), np.arange(4.0) * 2)


def test_ranks_without_enough_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi.MpiWorld, "local_rank_and_size", lambda self: (0, 3))
    with host_cuda(devices=2), pytest.raises(WorldError, match=r"a GPU for each of the 3 ranks of .* got 2"):
        nccl.Gpus(mpi.MpiWorld.__new__(mpi.MpiWorld))


def test_a_type_that_nccl_does_not_add() -> None:
    with pytest.raises(WorldError, match=r"expected a type that NCCL adds .*, got complex64"):
        nccl._type(np.zeros(1, np.complex64))


def test_a_rank_with_one_visible_gpu_uses_that_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi.MpiWorld, "local_rank_and_size", lambda self: (1, 2))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    with host_cuda(devices=1) as cuda, host_nccl(cuda):
        assert nccl.Gpus(mpi.MpiWorld.__new__(mpi.MpiWorld)).device.ordinal == 0


def test_nccl_is_searched_in_packages_before_the_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = [tmp_path / p / "lib" / nccl.FILE for p in ("nvidia/nccl", "nvidia/cu13", "torch")]
    for file in files[::-1]:
        file.parent.mkdir(parents=True)
        file.touch()
    monkeypatch.setattr("sys.path", [str(tmp_path / "none"), str(tmp_path)])
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    assert nccl.candidates() == [*map(str, files), nccl.FILE]
    monkeypatch.setenv("ONEFLOW_NCCL_LIBRARY", str(tmp_path / "mine.so"))
    assert nccl.candidates() == [str(tmp_path / "mine.so")]
    monkeypatch.setenv(nccl.REGISTER, "")
    monkeypatch.delenv(nccl.REGISTER)
    with pytest.raises(WorldError, match=r"pip install nvidia-nccl-cu13, or \$ONEFLOW_NCCL_LIBRARY\): .*mine.so"):
        nccl.library.__wrapped__()
    # Ranks need not record the same runs.
    assert os.environ[nccl.REGISTER] == "0"


def test_errors_contain_the_message_of_nccl() -> None:
    with host_cuda() as cuda, host_nccl(cuda):
        name, made = nccl.UniqueId(), nccl.POINTER()
        nccl.call("ncclGetUniqueId", ctypes.byref(name))
        nccl.call("ncclCommInitRank", ctypes.byref(made), 1, name, 0)
        with pytest.raises(WorldError, match=r"ncclSend: made of files: send: no memory of the device; NCCL_DEBUG"):
            nccl.call("ncclSend", 16, 4, 1, 0, made, None)


PARTS = [
    ((4, 5, 6), np.s_[:, :, 1:3]), ((4, 5, 6), np.s_[:, 1:3]), ((4, 5, 6), np.s_[1:3]), ((4, 1, 6), np.s_[..., 2:]),
    ((3, 4, 5, 6), np.s_[:, 1:2, :, 2:4]), ((3, 4, 5, 6), np.s_[:, 1:3, :, 2:4]), ((6,), np.s_[2:5]),
    ((), np.s_[...]),
]  # fmt: skip


@pytest.mark.parametrize("pitch", [nccl.MAX_PITCH, 100, 0], ids=["rows", "short", "blocks"])
@pytest.mark.parametrize(("shape", "part"), PARTS, ids=str)
def test_copies_are_rows_of_blocks(shape: tuple[int, ...], part: Any, pitch: int) -> None:
    """Every element is copied once, to the right position; the pitch of rows is within the limit of the driver."""
    whole, other = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape), np.zeros(shape, np.float32)
    source, target = whole[part], np.zeros_like(whole[part])
    for pair in ((target, source), (other[part], target)):
        size, rows, rest = nccl.copy_axes(*pair, pitch)
        axes = [*rest, *([rows] if rows else [])]
        assert rows is None or (max(rows[1:]) <= pitch and min(rows[1:]) >= size)
        for at in itertools.product(*(range(n) for n, *_ in axes)):
            to, of = (sum(i * a[k] for i, a in zip(at, axes, strict=True)) for k in (1, 2))
            _bytes(pair[0])[to : to + size] = _bytes(pair[1])[of : of + size]
    np.testing.assert_array_equal(other[part], source)


def _bytes(array: np.ndarray) -> np.ndarray:
    """The memory from the first element of a view to the last element."""
    length = array.itemsize + sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True))
    return np.frombuffer((ctypes.c_char * length).from_address(array.ctypes.data), np.uint8)
