"""Export and import of DLPack capsules where NumPy does not support them: device memory, and element types."""

from __future__ import annotations

import ctypes
import itertools
import math
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType

#: DLPack device types: host memory, CUDA memory, CUDA managed memory.
HOST, CUDA, MANAGED = 1, 2, 13
#: Element types as DLPack's (code, bits): signed and unsigned integers, floats, bfloat16, floats of 8 bits, bool,
#: complex numbers.
DTYPE_CODES = {
    **{d: (0, d.bits) for d in dtypes.SIGNED}, **{d: (1, d.bits) for d in dtypes.UNSIGNED},
    dtypes.float16: (2, 16), dtypes.float32: (2, 32), dtypes.float64: (2, 64), dtypes.bfloat16: (4, 16),
    dtypes.float8_e4m3fn: (10, 8), dtypes.float8_e5m2: (12, 8), dtypes.bool_: (6, 8),
    **{d: (5, d.bits) for d in dtypes.COMPLEX},
}  # fmt: skip


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("device_id", ctypes.c_int32),
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

CAPSULE_NAME, USED_CAPSULE_NAME = b"dltensor", b"used_dltensor"
#: Exported tensors that have not been deleted yet, by the key in their manager context.
_exported: dict[int, tuple[Any, ...]] = {}
_numbers = itertools.count(1)


def _delete(address: int) -> None:
    _exported.pop(_Managed.from_address(address).context, None)


def _destroy(capsule: int) -> None:
    """Deletes the tensor of a capsule that was not consumed."""
    if _is_valid(capsule, CAPSULE_NAME):
        _delete(_pointer_of(capsule, CAPSULE_NAME))


_deleter, _destructor = _DELETER(_delete), _DESTRUCTOR(_destroy)


def export(owner: Any, address: int, shape: tuple[int, ...], dtype: DType, device: tuple[int, int]) -> Any:
    """A capsule of contiguous memory on `device` (device type, device id); `owner` lives until the consumer
    deletes it.
    """
    key, rank = next(_numbers), len(shape)
    sizes = (ctypes.c_int64 * rank)(*shape)
    strides = (ctypes.c_int64 * rank)(*(math.prod(shape[axis + 1 :]) for axis in range(rank)))
    code, bits = DTYPE_CODES[dtype]
    # Strides are explicit: not every library takes a null pointer for a contiguous tensor.
    tensor = _Tensor(address, *device, rank, code, bits, 1, sizes, strides, 0)
    managed = _Managed(tensor, key, ctypes.cast(_deleter, ctypes.c_void_p))
    _exported[key] = (owner, sizes, strides, managed)
    return _capsule_new(ctypes.addressof(managed), CAPSULE_NAME, ctypes.cast(_destructor, ctypes.c_void_p))


class ImportedTensor:
    """The tensor of a capsule, deleted with this object. `strides` are in elements, None for a contiguous tensor.

    Raises:
        TypeError: the element type is not supported.
        ValueError: the capsule has been consumed already.
    """

    def __init__(self, capsule: Any) -> None:
        held = id(capsule)
        if not _is_valid(held, CAPSULE_NAME):
            raise ValueError("expected a DLPack capsule that was not imported before")
        managed = _Managed.from_address(_pointer_of(held, CAPSULE_NAME))
        tensor = managed.tensor
        self.shape = tuple(tensor.shape[: tensor.ndim])
        self.dtype = _dtype(tensor)
        self.strides = _strides(tensor, self.shape)
        self.address = (tensor.data or 0) + tensor.offset
        _set_name(held, USED_CAPSULE_NAME)
        self._managed = managed

    def __del__(self) -> None:
        managed = getattr(self, "_managed", None)
        if managed is not None and managed.deleter:
            _DELETER(managed.deleter)(ctypes.addressof(managed))


def _dtype(tensor: Any) -> DType:
    for dtype, kind in DTYPE_CODES.items():
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
    """An array of another library on the host as a NumPy array in the same memory.

    Raises:
        BufferError: the other library refuses to export it, for example because it has a gradient.
        TypeError: the element type is not supported.
    """
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError):
        if value.__dlpack_device__()[0] != HOST:
            raise
    imported = ImportedTensor(value.__dlpack__())
    size = imported.dtype.numpy.itemsize
    strides = None if imported.strides is None else tuple(s * size for s in imported.strides)
    last = sum((n - 1) * s for n, s in zip(imported.shape, strides, strict=True)) if strides else 0
    count = last + size if strides else math.prod(imported.shape) * size
    memory = (ctypes.c_char * count).from_address(imported.address)
    memory.owner = imported  # type: ignore[attr-defined]  # which the array holds through its memory
    return np.ndarray(imported.shape, imported.dtype.numpy, memoryview(memory), strides=strides)


def capsule_of(array: Any, options: dict[str, Any]) -> Any:
    """A capsule of a NumPy array or an array on a device, with the options of the protocol.

    Raises:
        BufferError: another device is requested, or the array is read-only.
    """
    dtype = dtypes.BY_NUMPY.get(array.dtype) if isinstance(array, np.ndarray) else None
    if dtype is None or dtype.is_native:
        return array.__dlpack__(**options)
    if options.get("dl_device") not in (None, (HOST, 0)):
        raise BufferError(f"expected to be asked for the host, got device {options['dl_device']}")
    dense = np.array(array, order="C", copy=options.get("copy") or None)
    if not dense.flags.writeable:
        raise BufferError("expected an array that may be written for DLPack, got a read-only one; pass a copy")
    return export(dense, int(dense.ctypes.data), dense.shape, dtype, (HOST, 0))
