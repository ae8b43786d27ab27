"""Arguments of compiled programs: values of a caller as contiguous arrays of the expected dtype.

NumPy arrays, objects with `__array_interface__` or DLPack, and Python numbers and lists are accepted. Memory that is
contiguous, aligned and in native byte order is not copied.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneflow.dialect.record import suggestion
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.runtime.dlpack import to_numpy


class ArgumentError(TypeError, ValueError):
    """An argument does not match the program; the message names the argument, what was expected and what was
    given.
    """


@dataclass(frozen=True)
class Parameter:
    """An input of a program: its name and its type."""

    name: str
    desc: TensorDesc

    def __str__(self) -> str:
        return f"{self.name}: {self.desc}"


def bind(parameters: Sequence[Parameter], arrays: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
    """An argument for each parameter, in order.

    Raises:
        ArgumentError: one is missing, given twice, or unknown.
    """
    if not named and len(arrays) == len(parameters):
        return list(arrays)
    names = [p.name for p in parameters]
    for name in named:
        if name not in names:
            advice = suggestion(name, names)
            raise ArgumentError(f"unknown argument {name!r}{advice or f'; expected {_listed(parameters)}'}")
    if len(arrays) > len(parameters):
        raise ArgumentError(f"expected {len(parameters)} arguments ({_listed(parameters)}), got {len(arrays)}")
    bound = dict(zip(names, arrays, strict=False))
    for name, value in named.items():
        if name in bound:
            raise ArgumentError(f"argument {name!r} is given twice: by position and by name")
        bound[name] = value
    missing = [p for p in parameters if p.name not in bound]
    if missing:
        raise ArgumentError(f"missing argument {missing[0]}; expected {len(parameters)}, got {len(bound)}")
    return [bound[n] for n in names]


def _listed(parameters: Sequence[Parameter]) -> str:
    return ", ".join(map(str, parameters)) or "none"


def as_array(parameter: Parameter, value: Any) -> np.ndarray:
    """The argument as a contiguous array of the type of the parameter.

    Raises:
        ArgumentError: the dtype, rank or sizes do not match.
    """
    array = value if isinstance(value, np.ndarray) else _imported(parameter, value)
    wanted = parameter.desc
    native = array.dtype if array.dtype.isnative else array.dtype.newbyteorder("=")
    if native != wanted.dtype.numpy:
        raise ArgumentError(f"argument {parameter.name!r}: expected dtype {wanted.dtype.name}, got {array.dtype}")
    assert wanted.shape is not None
    if array.ndim != len(wanted.shape):
        raise ArgumentError(f"argument {parameter.name!r}: expected {wanted}, got an array of shape {array.shape}")
    for axis, (got, size) in enumerate(zip(array.shape, wanted.shape, strict=True)):
        if size is not None and got != size:
            raise ArgumentError(
                f"argument {parameter.name!r}: expected size {size} in dimension {axis} of {wanted}, "
                f"got an array of shape {array.shape}"
            )
    try:
        return np.require(array, native, ("C", "A"))
    except MemoryError:
        raise MemoryError(
            f"argument {parameter.name!r}: expected memory for a contiguous copy of {wanted} ({array.nbytes} bytes), "
            "the system has less; compute on fewer elements at once, or before they are expanded"
        ) from None


def address_of(array: np.ndarray) -> int:
    """The address of the first element of a contiguous array.

    The buffer protocol is much faster than the attributes of NumPy. The protocol does not work for read-only or empty
    arrays and for dtypes outside of NumPy.
    """
    try:
        return ctypes.addressof(_Byte.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):
        return int(array.__array_interface__["data"][0])


_Byte = ctypes.c_char


def _imported(parameter: Parameter, value: Any) -> np.ndarray:
    """An array of another library or a Python value as a NumPy array."""
    if hasattr(value, "__array_interface__"):
        return np.asarray(value)
    if hasattr(value, "__dlpack__"):
        return _from_dlpack(parameter, value)
    if isinstance(value, (bool, int, float, list, tuple, np.generic)):
        return _from_python(parameter, value)
    raise ArgumentError(
        f"argument {parameter.name!r}: expected an array ({parameter.desc}), got {type(value).__name__}; "
        "NumPy arrays, __array_interface__ and DLPack are taken"
    )


def _from_dlpack(parameter: Parameter, value: Any) -> np.ndarray:
    try:
        return to_numpy(value)
    except (BufferError, RuntimeError, TypeError) as error:
        raise ArgumentError(f"argument {parameter.name!r}: cannot read the DLPack tensor: {error}") from None


def _from_python(parameter: Parameter, value: Any) -> np.ndarray:
    """A Python value as an array; it takes the dtype of the parameter if the conversion keeps the kind."""
    array = np.asarray(value)
    wanted = parameter.desc.dtype.numpy
    exact = isinstance(value, np.generic) or not np.can_cast(array.dtype, wanted, "same_kind")
    return array if exact and array.dtype.kind != wanted.kind else array.astype(wanted)
