"""Large constants in the file of a model, which are read from the file alone: the protobuf refers to them.

The format of the file is protobuf's (https://protobuf.dev/programming-guides/encoding): a message is a sequence of
fields, and a field is a tag, which holds a number and a wire type, and a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import onnx
from onnx import GraphProto, ModelProto, TensorProto

#: The fewest bytes of a constant that the protobuf refers to.
MIN_BYTES = 4096
#: The field numbers on the path from a model to its constants, and of the bytes of a constant.
_CONSTANTS = (
    ModelProto.DESCRIPTOR.fields_by_name["graph"].number,
    GraphProto.DESCRIPTOR.fields_by_name["initializer"].number,
)
_BYTES = TensorProto.DESCRIPTOR.fields_by_name["raw_data"].number
_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5
#: Types whose elements share bytes.
PACKED = ("int4", "uint4", "float4_e2m1fn", "int2", "uint2")


class _Field(NamedTuple):
    """A field of a message: its number, its wire type, and the positions of its tag, of its value and of its end."""

    number: int
    kind: int
    tag: int
    value: int
    end: int


def referring(model: memoryview, location: str) -> bytes:
    """The protobuf of a model whose large constants are external data in the file `location`, the model's own.

    Raises:
        ValueError: the bytes are no message.
        DecodeError: a constant is no message of a tensor.
    """
    return _edited(model, 0, _CONSTANTS, lambda tensor, base: _reference(tensor, base, location))


def _edited(message: memoryview, base: int, path: Sequence[int], edit: Callable[[memoryview, int], bytes]) -> bytes:
    """A message, which begins at `base` in the file, with the messages at the end of a path of fields replaced."""
    parts: list[bytes | memoryview] = []
    copied = 0
    for field in _fields(message):
        if field.number != path[0] or field.kind != _LENGTH:
            continue
        inner, at = message[field.value : field.end], base + field.value
        changed = _edited(inner, at, path[1:], edit) if path[1:] else edit(inner, at)
        parts += [message[copied : field.tag], _varint(field.number << 3 | _LENGTH), _varint(len(changed)), changed]
        copied = field.end
    return b"".join([*parts, message[copied:]])


def _reference(tensor: memoryview, base: int, location: str) -> bytes:
    """A constant that refers to its bytes in the file, or as it is where it is small or has packed elements."""
    fields = list(_fields(tensor))
    found = [field for field in fields if field.number == _BYTES and field.kind == _LENGTH]
    if len(found) != 1 or found[0].end - found[0].value < MIN_BYTES:
        return bytes(tensor)
    proto = TensorProto.FromString(b"".join(tensor[f.tag : f.end] for f in fields if f is not found[0]))
    if proto.external_data or proto.data_location or not _has_whole_bytes(proto.data_type):
        return bytes(tensor)
    entries = {"location": location, "offset": base + found[0].value, "length": found[0].end - found[0].value}
    for key, value in entries.items():
        proto.external_data.add(key=key, value=str(value))
    proto.data_location = TensorProto.EXTERNAL
    written: bytes = proto.SerializeToString()
    return written


def _has_whole_bytes(number: int) -> bool:
    known = number in TensorProto.DataType.values() and number not in (TensorProto.UNDEFINED, TensorProto.STRING)
    return known and onnx.helper.tensor_dtype_to_np_dtype(number).name not in PACKED


def _fields(message: memoryview) -> Iterator[_Field]:
    """The fields of a message.

    Raises:
        ValueError: the bytes are no message.
    """
    at = 0
    while at < len(message):
        tag = at
        key, at = _read_varint(message, at)
        value, kind = at, key & 7
        if kind == _VARINT:
            _, at = _read_varint(message, at)
        elif kind == _LENGTH:
            length, value = _read_varint(message, at)
            at = value + length
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
            at += 8 if kind == _EIGHT_BYTES else 4
        else:
            raise ValueError(f"the wire type {kind}")
        if at > len(message):
            raise ValueError("a field that ends after its message")
        yield _Field(key >> 3, kind, tag, value, at)


def _read_varint(message: memoryview, at: int) -> tuple[int, int]:
    """A number, 7 bits in each byte, and the position after it."""
    number = 0
    for count in range(10):
        if at + count >= len(message):
            break
        byte = message[at + count]
        number |= (byte & 127) << 7 * count
        if byte < 128:
            return number, at + count + 1
    raise ValueError("a number without an end")


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    parts.append(number)
    return bytes(parts)
