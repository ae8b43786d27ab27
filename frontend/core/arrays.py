"""Arrays: NumPy arrays and scalars, and objects with DLPack or an array interface.

`Data` holds the values of a tensor: a NumPy array on the host, a `DeviceArray` on a device, or a `GlobalArray` over
the ranks of a mesh. The rest of the frontend names none of these classes, and uses the functions of this module.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType
from oneflow.dialect.nd_sbp import NdSbp
from oneflow.frontend.core.errors import fail, user_location
from oneflow.runtime.arguments import address_of as host_address_of
from oneflow.runtime.backends import accelerator_of
from oneflow.runtime.device_array import DeviceArray, OpenDevice
from oneflow.runtime.dlpack import HOST, to_numpy
from oneflow.runtime.failures import RunError
from oneflow.runtime.global_array import GlobalArray, Placement, shared
from oneflow.runtime.shards import MeshLayout

_PROTOCOLS = ("__dlpack__", "__array_interface__", "__array__", "__cuda_array_interface__")
_RANKS, _DEVICE = operator.attrgetter("placement", "nd"), operator.attrgetter("stream.device")
LocalData: TypeAlias = np.ndarray | DeviceArray
Data: TypeAlias = LocalData | GlobalArray


def is_array(value: Any) -> bool:
    """Whether `value` is an array of any library (Python numbers and lists are not)."""
    return isinstance(value, (np.ndarray, np.generic)) or any(hasattr(type(value), p) for p in _PROTOCOLS)


def is_data(value: Any) -> bool:
    """Whether `value` is an array of NumPy, a `DeviceArray` or a `GlobalArray`."""
    return isinstance(value, (np.ndarray, DeviceArray, GlobalArray))


def is_foreign(value: Any) -> bool:
    """Whether `value` is an array of another library than NumPy that is read through DLPack."""
    return hasattr(type(value), "__dlpack__") and not isinstance(value, (np.ndarray, DeviceArray, GlobalArray))


def is_on_host(value: Any) -> bool:
    """Whether `value` is an array of NumPy, or one of another library in host memory."""
    return type(value) is np.ndarray or (is_foreign(value) and value.__dlpack_device__()[0] == HOST)


def is_on_device(data: Any) -> TypeGuard[DeviceArray]:
    """Whether an array is in the memory of a device."""
    return isinstance(data, DeviceArray)


def is_on_ranks(data: Any) -> TypeGuard[GlobalArray]:
    """Whether an array is global: in shards on the ranks of a placement."""
    return type(data) is GlobalArray


def device_of(data: Data) -> Any:
    """The device of an array, to be compared by identity; None for an array on the host or on ranks."""
    return data.stream.device if isinstance(data, DeviceArray) else None


def location_reader(data: Data) -> Callable[[Any], Any] | None:
    """The function that reads where arrays of the class of an array are, for comparisons: their device, or the
    placement and layout of global arrays. None for arrays on the host.
    """
    if isinstance(data, np.ndarray):
        return None
    return _RANKS if isinstance(data, GlobalArray) else _DEVICE


def ranks_of(data: Data) -> tuple[Any, Any]:
    """The placement and layout of a global array; (None, None) for any other."""
    return (data.placement, data.layout.nd) if type(data) is GlobalArray else (None, None)


def is_expanded(data: Data) -> bool:
    """Whether elements of an array share memory, so that the array cannot be updated: a large expanded tensor."""
    return isinstance(data, np.ndarray) and not data.flags.c_contiguous


def memory_of(data: Data) -> tuple[Hashable, int]:
    """The memory that an array is in, to be compared, and the address of its first element there."""
    if isinstance(data, DeviceArray):
        return data.stream.device, data.address
    return (data, 0) if isinstance(data, GlobalArray) else (None, host_address_of(data))


def to_host(data: Data) -> Data:
    """An array as one of NumPy: a copy of an array on a device or on ranks, else the array itself."""
    return data if isinstance(data, np.ndarray) else data.numpy()


def to_data(value: Any) -> Data:
    """An array of any library as `Data`, in the same memory where that can be shared.

    Raises:
        TypeError: the element type is not supported, or an array on a device is not contiguous.
    """
    if isinstance(value, GlobalArray):
        return value
    accelerator = accelerator_of(value)
    if accelerator is None:
        return to_array(value)
    try:
        return accelerator.import_array(value)
    except ValueError as error:
        raise TypeError(str(error)) from None


def to_array(value: Any) -> np.ndarray:
    """An array of any library as one of NumPy, without a copy where its memory can be shared.

    Raises:
        RunError: the program that computes the array on a device has failed.
        TypeError: the element type is not supported.
    """
    if isinstance(value, (DeviceArray, GlobalArray)):
        try:
            return value.numpy()
        except RunError as error:
            raise with_user_line(error, asynchronous=True) from None
    if not isinstance(value, (np.ndarray, np.generic)) and hasattr(value, "__dlpack__"):
        array = _from_dlpack(value)
    else:
        array = np.asarray(value)
    dtypes.from_numpy(array.dtype)
    return array


def with_user_line(error: RunError, asynchronous: bool) -> RunError:
    """An error of a run with the user's line. On a device the error is `asynchronous`: the line is where it was
    detected.
    """
    at = user_location()
    return type(error)(f"{error} ({'found at ' if asynchronous else ''}{at}:{at.column})")


def _from_dlpack(value: Any) -> np.ndarray:
    try:
        return to_numpy(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        name = type(value).__name__
        raise TypeError(f"cannot read {name} through DLPack: {error}; pass a NumPy array") from None


def dtype_of(data: Data) -> DType:
    """The element type of an array."""
    return dtypes.from_numpy(data.dtype) if isinstance(data, np.ndarray) else data.dtype


def device_name(data: Data) -> str:
    """The name of the device of an array: `cpu`, or such as `cuda:0`."""
    return str(data.device) if isinstance(data, DeviceArray) else "cpu"


def device_of_all(arrays: Sequence[Data]) -> str | None:
    """The name of the device that all arrays are on, except host arrays without dimensions, which are copied; None
    where an array is elsewhere, or all are on the host.
    """
    device: OpenDevice | None = None
    for array in arrays:
        if isinstance(array, DeviceArray):
            if array.stream.device is not (device or array.stream.device):
                return None
            device = array.stream.device
        elif not isinstance(array, np.ndarray) or array.ndim:
            return None
    return None if device is None else device.name


def address_of(data: Data) -> int:
    """The address of the first element of an array; of a global one, a number that no other array has."""
    if isinstance(data, GlobalArray):
        return id(data)
    return data.address if isinstance(data, DeviceArray) else host_address_of(data)


def expect_writable(array: np.ndarray) -> None:
    """Checks that NumPy lets the memory of a tensor be written.

    Raises:
        OneFlowError: `array` is read-only.
    """
    if not array.flags.writeable:
        raise fail("expected a tensor in writable memory, got the memory of a read-only array; copy the array, as in "
                   "flow.tensor(array)")  # fmt: skip


def overwrite(target: Data, source: Data) -> None:
    """Copies the elements of `source` into `target`, wherever the two are.

    Raises:
        OneFlowError: `target` is a read-only array.
    """
    if isinstance(target, GlobalArray):
        target.take(source if isinstance(source, GlobalArray) else to_array(source))
    elif isinstance(target, DeviceArray):
        target.take(to_array(source) if isinstance(source, GlobalArray) else source)
    else:
        expect_writable(target)
        np.copyto(target, source if type(source) is np.ndarray else to_array(source))


def distribute(array: np.ndarray, placement: Placement, nd: NdSbp) -> Data:
    """A whole array, the same on every rank, as a global one with a layout."""
    return GlobalArray.of(array, placement, nd)


def redistribute(data: Data, placement: Placement, nd: NdSbp) -> Data:
    """An array as a global one with a layout: a global one is resharded, of any other the values of rank 0 count."""
    if isinstance(data, GlobalArray):
        return data.to(placement, nd)
    return GlobalArray.of(shared(to_array(data), placement, nd), placement, nd)


def from_shard(shard: LocalData, placement: Placement, layout: MeshLayout) -> Data:
    """The global array of which each rank has a shard."""
    return GlobalArray.of_shard(shard, placement, layout)
