"""Pickled objects of OneFlow's `save`, read without running anything that is in the file.

A pickle names classes and functions that its reader calls. In this reader each name refers to a class of this module
that stores its arguments; other names are refused. The stored arguments are then converted to tensors, modules and
plain values.
"""

from __future__ import annotations

import inspect
import io
import math
import pickle
import pickletools
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.lazy import lazy
from oneflow.frontend.eager.tensor import EagerTensor, wrapped
from oneflow.frontend.importers.saved.variables import SavedError, inside, read_variable
from oneflow.frontend.nn.layers import limited_elements
from oneflow.frontend.nn.module import Module, Parameter

nn = lazy("oneflow.nn")
PROTOCOL = 1


def read_pickle(data: bytes, folder: Path | None = None) -> Any:
    """The object in a pickle of OneFlow's `save`.

    Args:
        data: the pickle.
        folder: the folder with a folder for each tensor; None where the tensors are in the pickle.

    Raises:
        SavedError: the file is no such pickle, is malformed, or names classes other than tensors, layers and plain
            values.
    """
    try:
        _check_memo(data)
        content = _Reader(io.BytesIO(data)).load()
        if not isinstance(content, dict) or content.get("protocol_version") != PROTOCOL or "data" not in content:
            raise SavedError(f"expected a pickle of OneFlow's save of version {PROTOCOL}, got another pickle")
        return _ObjectBuilder(folder).build(content["data"])
    except SavedError:
        raise
    except (RecursionError, MemoryError) as error:
        raise SavedError(
            f"expected a pickle of tensors and plain values, got a pickle that is too deep or large: {error}"
        ) from None
    except Exception as error:  # a malformed pickle raises exceptions of all kinds
        raise SavedError(f"expected a pickle of OneFlow's save, got a malformed one: {error}") from None


def _check_memo(data: bytes) -> None:
    """Refuses numbers of stored values for which a reader would allocate memory.

    Raises:
        SavedError: there is such a number.
        ValueError: the pickle is malformed.
    """
    for count, (code, argument, _) in enumerate(pickletools.genops(data)):
        if code.name in ("PUT", "BINPUT", "LONG_BINPUT") and int(argument or 0) > count:
            raise SavedError(f"expected a pickle that numbers its values in order, got the number {argument}")


class _StoredCall:
    """The record of an object in a pickle: the constructor's arguments, then its state."""

    arguments: tuple[Any, ...]
    state: Any

    def __new__(cls, *arguments: Any) -> Any:
        kept = super().__new__(cls)
        kept.arguments, kept.state = arguments, None
        return kept

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Array(_StoredCall):
    """An array of NumPy; its state is a version, a shape, a type, whether it is in column-major order, and bytes."""


class _Scalar(_StoredCall):
    """A number of NumPy: a type and bytes."""


class _Type(_StoredCall):
    """A type of NumPy: its text; the byte order is in its state."""


class _Encoded(_StoredCall):
    """Bytes that are written as text: the text, and its encoding."""


class _OneFlowType(_StoredCall):
    """An element type of OneFlow: its state is its number."""


class _Placed(_StoredCall):
    """The placement of a global tensor, which is read as a tensor of this process."""


class _Tensor(_StoredCall):
    """A tensor of OneFlow: its state has the array and the type, or the name of its folder."""


class _Parameter(_Tensor):
    """A parameter of OneFlow."""


class _Layer(_StoredCall):
    """A module of OneFlow of the class `kind`; its state has its attributes."""

    kind: type[Module]


#: The classes for the names in a pickle.
_CLASSES: dict[str, Callable[..., Any]] = {
    "collections.OrderedDict": OrderedDict,
    "builtins.set": set,
    "builtins.frozenset": frozenset,
    "builtins.complex": complex,
    "_codecs.encode": _Encoded,
    "numpy.ndarray": _StoredCall,
    "numpy.dtype": _Type,
    **{f"numpy.{core}.multiarray._reconstruct": _Array for core in ("core", "_core")},
    **{f"numpy.{core}.multiarray.scalar": _Scalar for core in ("core", "_core")},
    "oneflow.Tensor": _Tensor,
    "oneflow._oneflow_internal.Tensor": _Tensor,
    "oneflow.framework.tensor.Tensor": _Tensor,
    "oneflow.nn.Parameter": _Parameter,
    "oneflow.nn.parameter.Parameter": _Parameter,
    "oneflow._oneflow_internal.nn.Parameter": _Parameter,
    "oneflow._oneflow_internal.dtype": _OneFlowType,
    "oneflow._oneflow_internal.placement": _Placed,
    "oneflow._oneflow_internal.sbp.sbp": _Placed,
}
_LAYERS = "oneflow.nn.modules."
#: Attributes of OneFlow's layers that layers here do not have: the only supported value, or ANY for attributes
#: without effect on results.
_EXPECTED = {"channel_pos": "channels_first", "data_format": "channels_first"}
_WITHOUT_EFFECT = ("training", "out_channel_groups", "inplace")


class _Reader(pickle.Unpickler):
    """Resolves names."""

    def find_class(self, module: str, name: str) -> Any:
        """The class for a name.

        Raises:
            SavedError: nothing.
        """
        full = f"{module}.{name}"
        if full in _CLASSES:
            return _CLASSES[full]
        layer = getattr(nn, name, None) if full.startswith(_LAYERS) and name.isidentifier() else None
        if isinstance(layer, type) and issubclass(layer, Module):
            return type(name, (_Layer,), {"kind": layer})
        raise SavedError(
            f"expected tensors, layers and plain values, got {full}, which is not loaded; save a module's state_dict"
        )


def _options(kind: type[Module]) -> tuple[str, ...]:
    """The names of the arguments that make a layer."""
    return tuple(inspect.signature(kind.__init__).parameters) + tuple(
        getattr(kind, "options", inspect.Signature()).parameters
    )


def _parameter(array: np.ndarray) -> Parameter:
    """A parameter, which requires grad where it may."""
    return Parameter(array, dtypes.from_numpy(array.dtype).is_inexact)


class _ObjectBuilder:
    """Builds objects from the records of a pickle; `folder` has the tensors that are not in the pickle."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._done: dict[int, tuple[Any, Any]] = {}

    def build(self, value: Any) -> Any:
        """The object for a record; the same object for the same record.

        Raises:
            SavedError: the record contains itself, or is malformed.
        """
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
            return value
        if id(value) not in self._done:
            self._done[id(value)] = value, SavedError("expected values that do not contain themselves")
            self._done[id(value)] = value, self._make(value)
        made = self._done[id(value)][1]
        if isinstance(made, SavedError):
            raise made
        return made

    def _make(self, value: Any) -> Any:
        for kind, make in self._MAKERS.items():
            if isinstance(value, kind):
                return make(self, value)
        raise SavedError(f"expected tensors, layers and plain values, got {type(value).__name__}")

    def _dict(self, value: dict[Any, Any]) -> dict[Any, Any]:
        kind = OrderedDict if isinstance(value, OrderedDict) else dict
        return kind((self.build(k), self.build(v)) for k, v in dict.items(value))

    def _sequence(self, value: Any) -> Any:
        kind = next(k for k in (list, tuple, set, frozenset) if isinstance(value, k))
        return kind([self.build(v) for v in value])

    def _tensor(self, value: _Tensor) -> EagerTensor:
        state = self._state(value)
        if "path" in state:
            if self.folder is None:
                raise SavedError("expected the elements of tensors in the file, got the names of folders")
            array = read_variable(inside(self.folder, str(state["path"])))
        else:
            array = self.build(state.get("data"))
            if not isinstance(array, np.ndarray):
                raise SavedError(f"expected an array as the elements of a tensor, got {type(array).__name__}")
            dtype = self.build(state["dtype"]) if "dtype" in state else dtypes.from_numpy(array.dtype)
            array = array.astype(dtype.numpy, copy=False)
        return _parameter(array) if isinstance(value, _Parameter) else wrapped(array)

    def _state(self, value: _StoredCall) -> dict[str, Any]:
        if not isinstance(value.state, dict):
            raise SavedError("expected a tensor or a layer with its state, got none")
        return value.state

    def _layer(self, value: _Layer) -> Module:
        """The layer that its class makes with the saved attributes, and its state."""
        saved = self._state(value)
        tables = [dict(self.build(saved.get(t, {}))) for t in ("_parameters", "_buffers", "_modules")]
        parameters, buffers, modules = tables
        options = {name: self.build(saved[name]) for name in _options(value.kind) if name in saved}
        options |= {name: parameters[name] is not None for name in _options(value.kind) if name in parameters}
        tensors = [*parameters.values(), *buffers.values()]
        tensors += [t for m in modules.values() if m is not None for t in (*m.parameters(), *m.buffers())]
        most = sum(max(1, math.prod(t.shape)) for t in tensors if t is not None)
        try:
            with limited_elements(most):
                layer = value.kind(**options)
        except (TypeError, ValueError) as error:
            raise SavedError(f"cannot make the layer {value.kind.__name__}: {error}; save its state_dict") from None
        self._expect_known_state(
            layer, {n: self.build(v) for n, v in saved.items() if n not in options and n[0] != "_"}
        )
        for name, module in modules.items():
            layer.add_module(str(name), module)
        for name, tensor in (*parameters.items(), *buffers.items()):
            self._register(layer, str(name), tensor)
        layer.train(bool(saved.get("training", True)))
        return layer

    def _expect_known_state(self, layer: Module, rest: dict[str, Any]) -> None:
        """Checks that a layer is as its other saved attributes say.

        Raises:
            SavedError: an attribute has another value, or is unknown here.
        """
        for name, value in rest.items():
            known = _EXPECTED[name] if name in _EXPECTED else getattr(layer, name, SavedError)
            if name not in _WITHOUT_EFFECT and known != value:
                raise SavedError(
                    f"cannot make the layer {type(layer).__name__} with {name}={value!r}; save its state_dict"
                )

    def _register(self, layer: Module, name: str, tensor: Any) -> None:
        """Sets a saved parameter or buffer on a layer.

        Raises:
            SavedError: the layer has none of this name and shape.
        """
        own = {**layer._parameters, **layer._buffers}
        shape = None if own.get(name) is None else own[name].shape
        wanted = None if tensor is None else tensor.shape
        if name not in own or shape != wanted:
            raise SavedError(f"expected {type(layer).__name__}.{name} of shape {shape}, got {wanted}")
        is_plain = name in layer._parameters and tensor is not None and not isinstance(tensor, Parameter)
        setattr(layer, name, _parameter(tensor.numpy()) if is_plain else tensor)

    def _array(self, value: _Array) -> np.ndarray:
        _, shape, kind, is_column_major, data = value.state
        dtype = self.build(kind)
        data = self.build(data)
        sizes = [int(n) for n in shape]
        if min(sizes, default=0) < 0 or math.prod(sizes) * dtype.itemsize != len(data):
            raise SavedError(f"expected {sizes} elements of {dtype} in an array, got {len(data)} bytes")
        array = np.frombuffer(data, dtype)
        array = array.reshape(sizes[::-1]).T if is_column_major else array.reshape(sizes)
        return array.astype(dtype.newbyteorder("="))

    def _scalar(self, value: _Scalar) -> Any:
        kind, data = value.arguments
        (item,) = np.frombuffer(self.build(data), self.build(kind)).tolist()
        return item

    def _numpy_type(self, value: _Type) -> np.dtype:
        name, order = str(value.arguments[0]), str(value.state[1]) if value.state else "="
        dtype = np.dtype(name)
        if dtype.kind not in "biufc" or order not in "<>|=":
            raise SavedError(f"expected numbers as the elements of an array, got {name!r}")
        return dtype.newbyteorder(">") if order == ">" else dtype

    def _type(self, value: _OneFlowType) -> dtypes.DType:
        if value.state not in dtypes.BY_CODE:
            raise SavedError(f"expected an element type of OneFlow, got the number {value.state}")
        return dtypes.BY_CODE[value.state]

    def _bytes(self, value: _Encoded) -> bytes:
        text, encoding = value.arguments
        if encoding != "latin1":
            raise SavedError(f"expected bytes as latin1, got {encoding!r}")
        return str(text).encode(encoding)

    _MAKERS: dict[type, Callable[..., Any]] = {
        dict: _dict, list: _sequence, tuple: _sequence, set: _sequence, frozenset: _sequence,
        bytearray: lambda self, value: bytes(value), _Tensor: _tensor, _Layer: _layer, _Array: _array,
        _Scalar: _scalar, _Type: _numpy_type, _OneFlowType: _type, _Encoded: _bytes,
    }  # fmt: skip
