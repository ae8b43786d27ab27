"""`flow.comm`: collectives between the processes of a job on tensors of each process, in place.

Without a launcher, a process is rank 0 of 1. All ranks make the same calls in the same order, on tensors of one shape
and element type; otherwise a `WorldError` names the call and the line of each rank. Collectives compare the calls of
all ranks, and `recv` compares its request with what is sent. Data on a device are copied through the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.frontend import env
from oneflow.frontend.core.devices import Device
from oneflow.frontend.core.dispatch import current_builder
from oneflow.frontend.core.errors import fail, refuse, user_location
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.constructors import tensor as make
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.frontend.methods.methods import to
from oneflow.runtime.ranks import Transport, WorldError, exchange, job_transport

__all__ = [
    "all_gather", "all_gather_into_tensor", "all_reduce", "all_to_all", "barrier", "broadcast", "gather", "recv",
    "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter", "send",
]  # fmt: skip

#: The message before a tensor that `send` sends: element type, number of dimensions, shape (of at most the dimensions
#: that NumPy has), and the end of the text that names the line of the call.
_HEADER = np.dtype([("dtype", "i8"), ("ndim", "i8"), ("shape", "i8", 64), ("line", "S240")])


def all_reduce(tensor: Tensor) -> None:
    """Replaces the tensor of every rank by the sum over the ranks."""
    array = _read(tensor, "all_reduce")
    _write([tensor], [_summed(array, _transport("all_reduce", array))], "all_reduce")


def all_gather(tensor_list: Sequence[Tensor], tensor: Tensor) -> None:
    """Writes the tensor of rank i to index i of the list of every rank."""
    _check_count(tensor_list, "all_gather")
    array = _read(tensor, "all_gather")
    _write(tensor_list, _gathered(array, _transport("all_gather", array)), "all_gather")


def all_gather_into_tensor(output_tensor: Tensor, input_tensor: Tensor) -> None:
    """Writes the elements of the tensors of all ranks, one tensor after the other, to the output of every rank."""
    array = _read(input_tensor, "all_gather_into_tensor")
    shards = _gathered(array, _transport("all_gather_into_tensor", array))
    _write([output_tensor], [shards], "all_gather_into_tensor", any_shape=True)


def all_to_all(output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor]) -> None:
    """Writes input i of rank j to output j of rank i."""
    _check_count(output_tensor_list, "all_to_all")
    sources = _stacked(input_tensor_list, "all_to_all")
    received, transport = sources, _transport("all_to_all", sources[0])
    if transport is not None:
        received, counts = np.empty_like(sources), [sources[0].size] * len(sources)
        transport.all_to_all(sources.reshape(-1), received.reshape(-1), counts, counts)
    _write(output_tensor_list, received, "all_to_all")


def barrier() -> None:
    """Waits until all ranks have called this function."""
    if env.get_world_size() > 1:
        job_transport("comm.barrier")  # waits for all ranks, to compare their calls


def broadcast(tensor: Tensor, src: int) -> None:
    """Replaces the elements of the tensor of every rank by the elements of the tensor of rank `src`.

    The tensors have one number of elements and one element type.
    """
    array = np.array(_read(tensor, "broadcast"))
    _check_rank(src, "broadcast")
    elements = array.reshape(-1)
    transport = _transport("broadcast", elements, f" from rank {src}")
    if transport is not None:
        transport.broadcast(elements, src)
    _write([tensor], [array], "broadcast")


def gather(tensor: Tensor, gather_list: Sequence[Tensor] | None = None, dst: int = 0) -> None:
    """Writes the tensor of rank i to index i of the list of rank `dst`; other ranks have no list."""
    _check_rank(dst, "gather")
    array = _read(tensor, "gather")
    shards = _gathered(array, _transport("gather", array, f" to rank {dst}"))
    if env.get_rank() == dst:
        _write(_check_count(gather_list, "gather"), shards, "gather")


def reduce(tensor: Tensor, dst: int) -> None:
    """Replaces the tensor of rank `dst` by the sum over the ranks; the tensors of other ranks do not change."""
    _check_rank(dst, "reduce")
    array = _read(tensor, "reduce")
    total = _summed(array, _transport("reduce", array, f" to rank {dst}"))
    if env.get_rank() == dst:
        _write([tensor], [total], "reduce")


def reduce_scatter(output: Tensor, input_list: Sequence[Tensor]) -> None:
    """Writes the sum over the ranks of input i to the output of rank i."""
    arrays = _stacked(input_list, "reduce_scatter")
    totals = _summed(arrays, _transport("reduce_scatter", arrays[0]))
    _write([output], [totals[env.get_rank()]], "reduce_scatter")


def reduce_scatter_tensor(output_tensor: Tensor, input_tensor: Tensor) -> None:
    """Writes part i of the sum over the ranks, whose elements are cut into equal parts, to the output of rank i."""
    array, size = _read(input_tensor, "reduce_scatter_tensor"), env.get_world_size()
    if array.size % size:
        raise fail(
            f"expected a number of elements that is a multiple of {size}, the number of ranks, for"
            f" comm.reduce_scatter_tensor, got {_desc(array)}"
        )
    total = _summed(array, _transport("reduce_scatter_tensor", array))
    part = total.reshape(size, array.size // size)[env.get_rank()]
    _write([output_tensor], [part], "reduce_scatter_tensor", any_shape=True)


def scatter(tensor: Tensor, scatter_list: Sequence[Tensor] | None = None, src: int = 0) -> None:
    """Writes tensor i of the list of rank `src`, which alone has one, to the tensor of rank i."""
    _check_rank(src, "scatter")
    own = _read(tensor, "scatter")
    if env.get_rank() == src:
        shards = _stacked(scatter_list, "scatter", _desc(own))
    else:
        shards = np.empty((env.get_world_size(), *own.shape), own.dtype)
    transport = _transport("scatter", own, f" from rank {src}")
    if transport is not None:
        transport.broadcast(shards.reshape(-1), src)
    _write([tensor], [shards[env.get_rank()]], "scatter")


def send(tensor: Tensor, dst: int, send_meta: bool = True) -> None:
    """Sends the tensor to rank `dst`, which calls `recv`.

    `send_meta` is accepted for programs of OneFlow; the shape and element type are always sent first.
    """
    _check_rank(dst, "send", other=True)
    array, line = _read(tensor, "send"), str(user_location())
    header = np.zeros(1, _HEADER)
    header["dtype"], header["ndim"] = dtypes.from_numpy(array.dtype).code, array.ndim
    header["shape"][0, : array.ndim], header["line"] = array.shape, line.encode()[-_HEADER["line"].itemsize :]
    exchange(f"comm.send of {_desc(array)} to rank {dst} at {line}", [(dst, header), (dst, array.reshape(-1))], [])


def recv(
    src: int,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    device: Device | str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The tensor that rank `src` sends, of the given shape and element type if they are given.

    With `out` the tensor is written there.

    Raises:
        OneFlowError: only one of shape and dtype is given, or rank `src` is not another rank.
        WorldError: rank `src` sends a tensor of another shape or element type.
    """
    _check_rank(src, "recv", other=True)
    if (shape is None) != (dtype is None):
        raise fail(
            f"expected both shape and dtype for recv, or neither where the sender sends them, got {shape} and {dtype}"
        )
    wanted = None if out is None else _desc(_read(out, "recv"))
    if shape is not None and dtype is not None:
        wanted = _wanted(shape, dtype)
    line = user_location()
    call = f"comm.recv{f' of {wanted}' if wanted else ''} from rank {src} at {line}"
    (header,) = headers = np.zeros(1, _HEADER)
    exchange(call, [], [(src, headers)])
    sizes = header["shape"][: header["ndim"]].tolist()
    array = np.empty(sizes, dtypes.BY_CODE[int(header["dtype"])].numpy)
    exchange(call, [], [(src, array.reshape(-1))])
    if wanted is not None and wanted != _desc(array):
        own, sender_line = env.get_rank(), header["line"].decode(errors="replace")
        raise WorldError(
            f"expected ranks {src} and {own} to send and receive the same, but rank {src} sends {_desc(array)} at"
            f" {sender_line}, rank {own} receives {wanted} at {line}; two ranks have to send and receive in the same"
            " order"
        )
    if out is None:
        received = to(make(array), device=device)
        assert isinstance(received, EagerTensor)
        return received
    _write([out], [array], "recv")
    return out


def _wanted(shape: Any, dtype: Any) -> TensorDesc:
    """The type of a tensor to receive."""
    if not isinstance(shape, (list, tuple)) or not all(type(d) is int and d >= 0 for d in shape):
        raise fail(f"expected a list of sizes as the shape for comm.recv, got {shape!r}")
    if not isinstance(dtype, DType):
        raise fail(f"expected an element type, such as flow.float32, for comm.recv, got {dtype!r}", kind=TypeError)
    return TensorDesc(tuple(shape), dtype)


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


def _write(targets: Sequence[Any], arrays: Iterable[np.ndarray], name: str, any_shape: bool = False) -> None:
    """Replaces the values of tensors by the values of arrays of their shapes, or with `any_shape` by the elements of
    arrays in row-major order.

    Raises:
        OneFlowError: a value is no tensor of this process, or does not fit its array; no tensor has changed.
        RuntimeError: a tensor is a leaf that requires grad; no tensor has changed.
    """
    pairs = list(zip(targets, arrays, strict=True))
    for target, array in pairs:
        if not _fits(target, array, any_shape):
            desc = _desc(array)
            kind = f"tensor of {array.size} elements of {desc.dtype.mlir}" if any_shape else f"{desc}"
            got = target.desc if isinstance(target, EagerTensor) and not target.is_global else repr(target)
            raise fail(f"expected a {kind} of this process to write the result of comm.{name} to, got {got}")
        if target.requires_grad and target.is_leaf:
            raise refuse(f"comm.{name} would update a leaf that requires grad; pass x.data, or x.grad")
    for target, array in pairs:
        target.overwrite(np.array(array).reshape(target.array.shape), f"comm.{name}")


def _fits(target: Any, array: np.ndarray, any_shape: bool) -> bool:
    """Whether a value is a tensor of this process that can have the values of an array."""
    if not isinstance(target, EagerTensor) or target.is_global or target.array.dtype != array.dtype:
        return False
    own = target.array
    return bool(own.size == array.size if any_shape else own.shape == array.shape)


#: The types whose sums are computed in another: MPI has no 16-bit floats.
_WIDE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "float16": lambda x: x.astype(np.float32), "bfloat16": lambda x: x.astype(np.float32),
    "bool": lambda x: x.astype(np.uint8),
}  # fmt: skip


def _desc(array: np.ndarray) -> TensorDesc:
    return TensorDesc(array.shape, dtypes.from_numpy(array.dtype))


def _transport(name: str, array: np.ndarray, root: str = "") -> Transport | None:
    """The transport to all ranks, which call the same function with arrays of one type; None without other ranks.

    Raises:
        WorldError: other ranks make another call.
    """
    if env.get_world_size() == 1:
        return None
    return job_transport(f"comm.{name} of {_desc(array)}{root}")


def _summed(array: np.ndarray, transport: Transport | None) -> np.ndarray:
    """The sum of the arrays of all ranks."""
    if transport is None:
        return array
    wide = _WIDE.get(array.dtype.name, np.array)(array)
    transport.all_reduce(wide.reshape(-1), wide.reshape(-1))
    total: np.ndarray = wide.astype(array.dtype)
    return total


def _gathered(array: np.ndarray, transport: Transport | None) -> np.ndarray:
    """The arrays of all ranks, stacked."""
    if transport is None:
        return array[None]
    size = env.get_world_size()
    gathered = np.empty((size, *array.shape), array.dtype)
    transport.all_gather(array.reshape(-1), gathered.reshape(-1), [array.size] * size)
    return gathered


def _stacked(tensors: Any, name: str, desc: TensorDesc | None = None) -> np.ndarray:
    """The values of a list of tensors, one for each rank, stacked.

    Raises:
        OneFlowError: the list has another length, or tensors of several types, or of another type than `desc`.
    """
    arrays = [_read(x, name) for x in _check_count(tensors, name)]
    wanted = desc or _desc(arrays[0])
    for index, array in enumerate(arrays):
        if _desc(array) != wanted:
            raise fail(f"expected a list of {wanted} for comm.{name}, got {_desc(array)} at index {index}")
    return np.stack(arrays)


def _check_count(tensors: Any, name: str) -> Sequence[Any]:
    """The list itself.

    Raises:
        OneFlowError: the value is no list of as many tensors as there are ranks.
    """
    if not isinstance(tensors, (list, tuple)) or len(tensors) != env.get_world_size():
        got = f"a list of {len(tensors)}" if isinstance(tensors, (list, tuple)) else repr(tensors)
        raise fail(
            f"expected a list of {env.get_world_size()} tensors, one for each rank, for comm.{name}, got {got}"
        )
    return tensors


def _check_rank(rank: int, name: str, other: bool = False) -> None:
    size = env.get_world_size()
    if (
        isinstance(rank, bool)
        or not isinstance(rank, int)
        or not 0 <= rank < size
        or (other and rank == env.get_rank())
    ):
        raise fail(f"expected {'another' if other else 'a'} rank in [0, {size}) for comm.{name}, got {rank!r}")
