"""DLPack capsules made and taken, where NumPy does not speak the protocol: memory on a device, and bfloat16."""

from __future__ import annotations

import ctypes
import itertools
import math
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType

#: Kinds of memory: the host's, a device's, and what host and device share.
HOST, CUDA, MANAGED = 1, 2, 13
#: Element types as (code, bits): signed and unsigned integers, floats, bfloat16, bool.
KINDS = {
    dtypes.int8: (0, 8), dtypes.int32: (0, 32), dtypes.int64: (0, 64), dtypes.uint8: (1, 8),
    dtypes.float16: (2, 16), dtypes.float32: (2, 32), dtypes.float64: (2, 64), dtypes.bfloat16: (4, 16),
    dtypes.bool_: (6, 8),
}  # fmt: skip


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("number", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64)]  # fmt: skip


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_python = ctypes.pythonapi
_capsule_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", _python)
)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _python))
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _python))
_set_name = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_SetName", _python))

NAME, USED = b"dltensor", b"used_dltensor"
#: What was given away and not yet given back, by the number that is its context.
_given: dict[int, tuple[Any, ...]] = {}
_numbers = itertools.count(1)


def _delete(address: int) -> None:
    _given.pop(_Managed.from_address(address).context, None)


def _destroy(capsule: int) -> None:
    """Takes back what nobody took out of its capsule."""
    if _is_valid(capsule, NAME):
        _delete(_pointer_of(capsule, NAME))


_deleter, _destructor = _DELETER(_delete), _DESTRUCTOR(_destroy)


def export(owner: Any, address: int, shape: tuple[int, ...], dtype: DType, device: tuple[int, int]) -> Any:
    """A capsule of contiguous memory on a device (kind, number); `owner` lives until it is given back."""
    key, rank = next(_numbers), len(shape)
    sizes = (ctypes.c_int64 * rank)(*shape)
    strides = (ctypes.c_int64 * rank)(*(math.prod(shape[axis + 1 :]) for axis in range(rank)))
    code, bits = KINDS[dtype]
    # Strides are written out: not every library takes a null pointer for a contiguous tensor.
    tensor = _Tensor(address, *device, rank, code, bits, 1, sizes, strides, 0)
    managed = _Managed(tensor, key, ctypes.cast(_deleter, ctypes.c_void_p))
    _given[key] = (owner, sizes, strides, managed)
    return _capsule_new(ctypes.addressof(managed), NAME, ctypes.cast(_destructor, ctypes.c_void_p))


class Taken:
    """The tensor of a capsule, given back with this object; `strides` are in elements, None where it has no gaps.

    Raises:
        TypeError: it has elements of another type.
    """

    def __init__(self, capsule: Any) -> None:
        held = id(capsule)
        if not _is_valid(held, NAME):
            raise ValueError("expected a DLPack capsule that nobody has taken yet")
        managed = _Managed.from_address(_pointer_of(held, NAME))
        tensor = managed.tensor
        self.shape = tuple(tensor.shape[: tensor.ndim])
        self.dtype = _dtype(tensor)
        self.strides = _strides(tensor, self.shape)
        self.address = (tensor.data or 0) + tensor.offset
        _set_name(held, USED)
        self._managed = managed

    def __del__(self) -> None:
        managed = getattr(self, "_managed", None)
        if managed is not None and managed.deleter:
            _DELETER(managed.deleter)(ctypes.addressof(managed))


def _dtype(tensor: Any) -> DType:
    for dtype, kind in KINDS.items():
        if kind == (tensor.code, tensor.bits) and tensor.lanes == 1:
            return dtype
    raise TypeError(f"expected elements of a type of ours, got DLPack's code {tensor.code} with {tensor.bits} bits")


def _strides(tensor: Any, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    if not tensor.strides or 0 in shape:
        return None
    strides = tuple(tensor.strides[: tensor.ndim])
    dense = all(n <= 1 or strides[axis] == math.prod(shape[axis + 1 :]) for axis, n in enumerate(shape))
    return None if dense else strides


def to_numpy(value: Any) -> np.ndarray:
    """An array of another library on the host, in the same memory.

    Raises:
        BufferError: it cannot be given away, as where it has a gradient.
        TypeError: its elements are of no type of ours.
    """
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError):
        if value.__dlpack_device__()[0] != HOST:
            raise
    taken = Taken(value.__dlpack__())
    size = taken.dtype.numpy.itemsize
    strides = None if taken.strides is None else tuple(s * size for s in taken.strides)
    last = sum((n - 1) * s for n, s in zip(taken.shape, strides, strict=True)) if strides else 0
    count = last + size if strides else math.prod(taken.shape) * size
    memory = (ctypes.c_char * count).from_address(taken.address)
    memory.owner = taken  # type: ignore[attr-defined]  # which the array holds through its memory
    return np.ndarray(taken.shape, taken.dtype.numpy, memory, strides=strides)


def capsule_of(array: Any, options: dict[str, Any]) -> Any:
    """A capsule of an array of NumPy or on a device, with the options of the protocol.

    Raises:
        BufferError: it is asked for elsewhere, or is read-only.
    """
    if not isinstance(array, np.ndarray) or array.dtype != dtypes.bfloat16.numpy:
        return array.__dlpack__(**options)
    if options.get("dl_device") not in (None, (HOST, 0)):
        raise BufferError(f"expected to be asked for the host, got device {options['dl_device']}")
    dense = np.array(array, order="C", copy=options.get("copy") or None)
    if not dense.flags.writeable:
        raise BufferError("expected an array that may be written for DLPack, got a read-only one; pass a copy")
    return export(dense, int(dense.ctypes.data), dense.shape, dtypes.bfloat16, (HOST, 0))
