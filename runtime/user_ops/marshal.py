"""Conversion of calls and attribute values between Python and the C++ framework.

Attribute kinds and element types have the codes of OneFlow on both sides.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

from oneflow.dialect import dtypes
from oneflow.dialect.attributes import KINDS, AttrKind, AttrValue
from oneflow.dialect.record import Call, flatten
from oneflow.dialect.signature import AttrDef
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.runtime.user_ops.framework import (
    ArgStruct,
    ArgumentStruct,
    AttrStruct,
    CallStruct,
    DescStruct,
    TensorStruct,
)

#: The attribute kinds by their codes in OneFlow.
KIND_CODES = {
    1: "int32", 2: "int64", 3: "bool", 4: "float", 5: "double", 6: "string", 7: "shape", 8: "data_type",
    9: "list_int32", 10: "list_int64", 11: "list_float", 12: "list_data_type", 13: "list_shape", 14: "list_string",
}  # fmt: skip
#: Arguments of functions may have further list types, which C++ stores like list types of attributes.
_CODES = {name: code for code, name in KIND_CODES.items()} | {"list_bool": 10, "list_double": 11}
CPU, CUDA = 1, 2


def kind_of(code: int) -> AttrKind:
    """The attribute kind with code `code` in OneFlow.

    Raises:
        ValueError: the kind is unknown.
    """
    if code not in KIND_CODES:
        raise ValueError(f"expected a kind of attribute such as kAtInt32, got the code {code}, which is none")
    return KINDS[KIND_CODES[code]]


def _dtype_of(code: int) -> dtypes.DType:
    if code not in dtypes.BY_CODE:
        raise ValueError(f"expected a data type such as kFloat, got the code {code}, which tensors cannot have")
    return dtypes.BY_CODE[code]


def decode_value(value: Mapping[str, Any]) -> AttrValue:
    """The Python value of an attribute from the framework.

    Raises:
        ValueError: the value names an unsupported element type.
    """
    name = kind_of(value["type"]).name
    element = name.removeprefix("list_")
    if name == "list_shape":
        return tuple(_shapes(value["ints"], value["lengths"]))
    items: list[Any]
    if name in ("float", "double", "list_float"):
        items = [float(x) for x in value["floats"]]
    elif element == "string":
        items = value["texts"]
    elif element == "data_type":
        items = list(map(_dtype_of, value["ints"]))
    else:
        items = [bool(x) if name == "bool" else x for x in value["ints"]]
    return tuple(items) if name == "shape" or name.startswith("list_") else items[0]


def _shapes(sizes: Sequence[int], ranks: Sequence[int]) -> list[tuple[int, ...]]:
    rest = iter(sizes)
    return [tuple(next(rest) for _ in range(rank)) for rank in ranks]


def _array(kind: Any, items: Sequence[Any]) -> Any:
    return (kind * len(items))(*items)


def _encode_text(text: str) -> bytes:
    if "\0" in text:
        raise ValueError(f"expected a string without NUL characters for an operator of a library, got {text!r}")
    return text.encode()


def encode_value(name: str, kind: str, value: AttrValue) -> AttrStruct:
    """An attribute value for the framework.

    Raises:
        ValueError: a string has a NUL character, which would end the string in C++.
    """
    items = list(value) if kind == "shape" or kind.startswith("list_") else [value]
    ints: list[int] = []
    floats: list[float] = []
    texts: list[bytes] = []
    lengths: list[int] = []
    if kind == "list_shape":
        ints, lengths = [d for shape in items for d in shape], [len(shape) for shape in items]
    elif kind in ("float", "double", "list_float", "list_double"):
        floats = items
    elif kind.endswith("string"):
        texts = [_encode_text(text) for text in items]
    else:
        ints = [x.code if kind.endswith("data_type") else int(x) for x in items]
    return AttrStruct(
        name.encode(), _CODES[kind], len(ints), len(floats), len(texts), len(lengths),
        _array(ctypes.c_int64, ints), _array(ctypes.c_double, floats),
        _array(ctypes.c_char_p, texts), _array(ctypes.c_int64, lengths),
    )  # fmt: skip


def _encode_desc(desc: TensorDesc | None) -> DescStruct:
    if desc is None:
        return DescStruct(0, 0, None)
    assert desc.is_static and desc.shape is not None, f"{desc} is not static"
    return DescStruct(desc.dtype.code, desc.rank, _array(ctypes.c_int64, desc.shape))


def _encode_arg(name: str, descs: Sequence[TensorDesc | None]) -> ArgStruct:
    return ArgStruct(name.encode(), len(descs), _array(DescStruct, [_encode_desc(d) for d in descs]))


def encode_tensor(index: int, desc: TensorDesc | None) -> TensorStruct:
    """A tensor of a program for the framework; None is a missing tensor."""
    if desc is None:
        return TensorStruct(-1, DescStruct(0, 0, None))
    dims = [-1 if d is None else d for d in desc.shape or ()]
    return TensorStruct(index, DescStruct(desc.dtype.code, desc.rank, _array(ctypes.c_int64, dims)))


def encode_argument(kind: str | None, value: AttrValue, tensors: Sequence[TensorStruct] = ()) -> ArgumentStruct:
    """An argument of a function: tensors if `kind` is None, otherwise an attribute value (None: missing)."""
    if kind is None:
        return ArgumentStruct(1, len(tensors), _array(TensorStruct, tensors))
    if value is None:
        return ArgumentStruct(0)
    return ArgumentStruct(2, 0, None, encode_value("", kind, value))


def encode_call(
    name: str, op: Call, attrs: Sequence[AttrDef], results: Mapping[str, Sequence[TensorDesc | None]], device: int
) -> CallStruct:
    """A static call on a device for the framework; results that are not inferred yet are None.

    Raises:
        OperatorError: an attribute value cannot be passed to C++.
    """
    values = [_encode_attr(a, op) for a in attrs]
    inputs = [_encode_arg(name, flatten([x])) for name, x in op.inputs.items()]
    outputs = [_encode_arg(name, descs) for name, descs in results.items()]
    return CallStruct(
        name.encode(), device, len(values), len(inputs), len(outputs),
        _array(AttrStruct, values), _array(ArgStruct, inputs), _array(ArgStruct, outputs),
    )  # fmt: skip


def _encode_attr(attr: AttrDef, op: Call) -> AttrStruct:
    try:
        return encode_value(attr.name, attr.kind.name, op.attrs[attr.name])
    except ValueError as error:
        raise op.error(f"attribute {attr.name}: {error}") from None


def without_sizes(descs: Any) -> Any:
    """The descriptions with rank 0; groups and missing tensors stay."""
    if isinstance(descs, tuple):
        return tuple(map(without_sizes, descs))
    return descs and TensorDesc((), descs.dtype)


def decode_desc(value: Mapping[str, Any]) -> TensorDesc:
    """A tensor description from the framework."""
    return TensorDesc(tuple(value["dims"]), dtypes.BY_CODE[value["data_type"]])
