"""`flow.comm`: collectives between the processes of a job on tensors of each process, in place.

Without a launcher, a process is rank 0 of 1. The tensors of all ranks have one shape and element type. Data on
a device are copied through the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType
from oneflow.frontend import env
from oneflow.frontend.core.devices import Device
from oneflow.frontend.core.dispatch import current_builder
from oneflow.frontend.core.errors import fail, refuse
from oneflow.frontend.core.shape import Shape
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.constructors import tensor as make
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.frontend.methods.methods import to
from oneflow.runtime.ranks import job_transport

__all__ = [
    "all_gather", "all_gather_into_tensor", "all_reduce", "all_to_all", "barrier", "broadcast", "gather", "recv",
    "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter", "send",
]  # fmt: skip

#: The largest number of dimensions of a tensor that `send` describes.
_MAX_RANK = 16


def all_reduce(tensor: Tensor) -> None:
    """Replaces the tensor of every rank by the sum over the ranks."""
    _write(tensor, _summed(_read(tensor, "all_reduce")), "all_reduce")


def all_gather(tensor_list: Sequence[Tensor], tensor: Tensor) -> None:
    """Writes the tensor of rank i to index i of the list of every rank."""
    _check_count(tensor_list, "all_gather")
    for target, shard in zip(tensor_list, _gathered(_read(tensor, "all_gather")), strict=True):
        _write(target, shard, "all_gather")


def all_gather_into_tensor(output_tensor: Tensor, input_tensor: Tensor) -> None:
    """Writes the tensors of all ranks, one after the other along dimension 0, to the output of every rank."""
    shards = _gathered(_read(input_tensor, "all_gather_into_tensor"))
    _write(output_tensor, shards.reshape(output_tensor.shape), "all_gather_into_tensor")


def all_to_all(output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor]) -> None:
    """Writes input i of rank j to output j of rank i."""
    for tensors in (output_tensor_list, input_tensor_list):
        _check_count(tensors, "all_to_all")
    sources = np.stack([_read(x, "all_to_all") for x in input_tensor_list])
    received, count = np.empty_like(sources), sources[0].size
    if env.get_world_size() > 1:
        job_transport().all_to_all(sources, received, [count] * len(sources), [count] * len(sources))
    else:
        received = sources
    for target, shard in zip(output_tensor_list, received, strict=True):
        _write(target, shard, "all_to_all")


def barrier() -> None:
    """Waits until all ranks have called this function."""
    _summed(np.zeros(1, np.int64))


def broadcast(tensor: Tensor, src: int) -> None:
    """Replaces the tensor of every rank by the tensor of rank `src`."""
    array = np.array(_read(tensor, "broadcast"))
    _check_rank(src, "broadcast")
    if env.get_world_size() > 1:
        job_transport().broadcast(array, src)
    _write(tensor, array, "broadcast")


def gather(tensor: Tensor, gather_list: Sequence[Tensor] | None = None, dst: int = 0) -> None:
    """Writes the tensor of rank i to index i of the list of rank `dst`; other ranks have no list."""
    _check_rank(dst, "gather")
    shards = _gathered(_read(tensor, "gather"))
    if env.get_rank() == dst:
        _check_count(gather_list or (), "gather")
        for target, shard in zip(gather_list or (), shards, strict=True):
            _write(target, shard, "gather")


def reduce(tensor: Tensor, dst: int) -> None:
    """Replaces the tensor of rank `dst` by the sum over the ranks; the tensors of other ranks do not change."""
    _check_rank(dst, "reduce")
    total = _summed(_read(tensor, "reduce"))
    if env.get_rank() == dst:
        _write(tensor, total, "reduce")


def reduce_scatter(output: Tensor, input_list: Sequence[Tensor]) -> None:
    """Writes the sum over the ranks of input i to the output of rank i."""
    _check_count(input_list, "reduce_scatter")
    totals = _summed(np.stack([_read(x, "reduce_scatter") for x in input_list]))
    _write(output, totals[env.get_rank()], "reduce_scatter")


def reduce_scatter_tensor(output_tensor: Tensor, input_tensor: Tensor) -> None:
    """Writes part i of the sum over the ranks, cut along dimension 0, to the output of rank i."""
    total = _summed(_read(input_tensor, "reduce_scatter_tensor"))
    part = total.reshape(env.get_world_size(), -1)[env.get_rank()]
    _write(output_tensor, part.reshape(output_tensor.shape), "reduce_scatter_tensor")


def scatter(tensor: Tensor, scatter_list: Sequence[Tensor] | None = None, src: int = 0) -> None:
    """Writes tensor i of the list of rank `src`, which alone has one, to the tensor of rank i."""
    _check_rank(src, "scatter")
    shards = np.zeros((env.get_world_size(), *tensor.shape), _read(tensor, "scatter").dtype)
    if env.get_rank() == src:
        _check_count(scatter_list or (), "scatter")
        shards = np.stack([_read(x, "scatter") for x in scatter_list or ()])
    if env.get_world_size() > 1:
        job_transport().broadcast(shards, src)
    _write(tensor, shards[env.get_rank()], "scatter")


def send(tensor: Tensor, dst: int, send_meta: bool = True) -> None:
    """Sends the tensor to rank `dst`, which calls `recv`; with `send_meta` its shape and element type first."""
    _check_rank(dst, "send", other=True)
    array = _read(tensor, "send")
    messages = [(dst, np.ascontiguousarray(array).reshape(-1))]
    if send_meta:
        described = [dtypes.from_numpy(array.dtype).code, array.ndim, *array.shape]
        header = np.zeros(_MAX_RANK + 2, np.int64)
        header[: len(described)] = described
        job_transport().exchange([(dst, header)], [])
    job_transport().exchange(messages, [])


def recv(
    src: int,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    device: Device | str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The tensor that rank `src` sends: of the given shape and type, or of a shape and type that are sent first.

    With `out` the tensor is written there.
    """
    _check_rank(src, "recv", other=True)
    if (shape is None) != (dtype is None):
        raise fail(
            f"expected both shape and dtype for recv, or neither where the sender sends them, got {shape} and {dtype}"
        )
    if shape is None or dtype is None:
        header = np.zeros(_MAX_RANK + 2, np.int64)
        job_transport().exchange([], [(src, header)])
        dtype, shape = dtypes.BY_CODE[int(header[0])], tuple(header[2 : 2 + int(header[1])].tolist())
    array = np.empty(tuple(shape), dtype.numpy)
    job_transport().exchange([], [(src, array.reshape(-1))])
    if out is None:
        received = to(make(array), device=device)
        assert isinstance(received, EagerTensor)
        return received
    _write(out, array, "recv")
    return out


def _read(tensor: Any, name: str) -> np.ndarray:
    """The values of a tensor of this process.

    Raises:
        OneFlowError: the value is no tensor, or a function is being traced.
    """
    if not isinstance(tensor, EagerTensor) or not current_builder().eager or tensor.is_global:
        raise fail(
            f"expected a tensor of this process for comm.{name}, outside of compiled functions, got {tensor!r}; "
            "global tensors are moved by to_global"
        )
    return np.ascontiguousarray(tensor.array).reshape(tensor.array.shape)


def _write(target: Any, array: np.ndarray, name: str) -> None:
    """Replaces the values of a tensor."""
    if not isinstance(target, EagerTensor) or tuple(target.shape) != array.shape or target.array.dtype != array.dtype:
        wanted = f"{dtypes.from_numpy(array.dtype).mlir} of shape {Shape(array.shape)}"
        raise fail(f"expected a tensor of {wanted} to write the result of comm.{name} to, got {target!r}")
    if target.requires_grad and target.is_leaf:
        raise refuse(f"comm.{name} would update a leaf that requires grad; pass x.data, or x.grad")
    target.overwrite(np.array(array), f"comm.{name}")


#: The types whose sums are computed in another: MPI has no 16-bit floats.
_WIDE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "float16": lambda x: x.astype(np.float32), "bfloat16": lambda x: x.astype(np.float32),
    "bool": lambda x: x.astype(np.uint8),
}  # fmt: skip


def _summed(array: np.ndarray) -> np.ndarray:
    """The sum of the arrays of all ranks."""
    if env.get_world_size() == 1:
        return array
    wide = _WIDE.get(array.dtype.name, np.array)(array)
    job_transport().all_reduce(wide, wide)
    total: np.ndarray = wide.astype(array.dtype)
    return total


def _gathered(array: np.ndarray) -> np.ndarray:
    """The arrays of all ranks, stacked."""
    size = env.get_world_size()
    gathered = np.empty((size, *array.shape), array.dtype)
    if size == 1:
        gathered[0] = array
    else:
        job_transport().all_gather(array.reshape(-1), gathered.reshape(-1), [array.size] * size)
    return gathered


def _check_count(tensors: Sequence[Any], name: str) -> None:
    if len(tensors) != env.get_world_size():
        raise fail(
            f"expected a list of {env.get_world_size()} tensors, one for each rank, got {len(tensors)}: {name}"
        )


def _check_rank(rank: int, name: str, other: bool = False) -> None:
    size = env.get_world_size()
    if (
        isinstance(rank, bool)
        or not isinstance(rank, int)
        or not 0 <= rank < size
        or (other and rank == env.get_rank())
    ):
        raise fail(f"expected {'another' if other else 'a'} rank in [0, {size}) for comm.{name}, got {rank!r}")
