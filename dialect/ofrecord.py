"""OneFlow's records: features by name, in the wire format of Protocol Buffers, in files of many records.

    message OFRecord { map<string, Feature> feature = 1; }
    message Feature { oneof { BytesList bytes_list = 1; FloatList float_list = 2; DoubleList double_list = 3;
                              Int32List int32_list = 4; Int64List int64_list = 5; } }
    message Int32List { repeated int32 value = 1; }      and so on

A file is records one after the other, each after its length (8 bytes, the lowest first). Zeros behind a record are no
part of it, since no field has the number 0.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oneflow.dialect.numpy_kernel import DataError

#: The kinds of lists, by the number of their field in a feature.
KINDS = {1: "bytes", 2: "float", 3: "double", 4: "int32", 5: "int64"}
_FIXED: dict[str, np.dtype[Any]] = {"float": np.dtype("<f4"), "double": np.dtype("<f8")}
_INTEGERS: dict[str, np.dtype[Any]] = {"int32": np.dtype(np.int32), "int64": np.dtype(np.int64)}
#: The wire types, and the sizes of wire types of a fixed size.
_VARINT, _LENGTH = 0, 2
_SIZES = {1: 8, 5: 4}
_PREFIX = 8
_MAX_VARINT_BYTES = 10


@dataclass(frozen=True)
class Feature:
    """The values of a feature: a list of bytes, or an array of numbers."""

    kind: str
    values: Any


class _Reader:
    """Reads the fields of a message."""

    def __init__(self, data: bytes | memoryview) -> None:
        self.data, self.at = memoryview(data), 0

    def fields(self) -> Iterator[tuple[int, int, Any]]:
        """The number, the wire type and the value of each field, up to a field of the number 0 or the end."""
        while self.at < len(self.data):
            tag = self.varint()
            if tag >> 3 == 0:
                if any(self.data[self.at - 1 :]):
                    raise DataError(
                        f"expected a record of OneFlow, got a field of the number 0 at byte {self.at - 1}"
                    )
                return
            yield tag >> 3, tag & 7, self._value(tag & 7)

    def varint(self) -> int:
        """The next integer of a variable length."""
        value = 0
        for i in range(_MAX_VARINT_BYTES):
            byte = self._take(1)[0]
            value |= (byte & 127) << (7 * i)
            if byte < 128:
                return value
        raise DataError(f"expected a record of OneFlow, got an integer of more than 10 bytes at byte {self.at}")

    def _value(self, wire: int) -> Any:
        if wire == _VARINT:
            return self.varint()
        if wire != _LENGTH and wire not in _SIZES:
            raise DataError(f"expected a record of OneFlow, got a field of wire type {wire} at byte {self.at}")
        return self._take(self.varint() if wire == _LENGTH else _SIZES[wire])

    def _take(self, size: int) -> memoryview:
        end = self.at + size
        if end > len(self.data):
            raise DataError(
                f"expected a whole record, got one that ends {end - len(self.data)} bytes early, in a field at byte"
                f" {self.at}"
            )
        part, self.at = self.data[self.at : end], end
        return part


def feature(record: bytes | memoryview, name: str) -> Feature:
    """The feature of a record with this name; of several the last.

    Raises:
        DataError: there is none, or the bytes are no record.
    """
    found, names = None, []
    for field_number, _, entry in _Reader(record).fields():
        if field_number == 1:
            parts = {key: value for key, _, value in _Reader(entry).fields()}
            names.append(bytes(parts.get(1, b"")).decode(errors="replace"))
            found = parts.get(2, b"") if names[-1] == name else found
    if found is None:
        raise DataError(f"expected a record with the feature {name!r}, got {', '.join(map(repr, names)) or 'none'}")
    return _feature(found)


def _feature(data: bytes | memoryview) -> Feature:
    kind, content = "bytes", b""
    for field_number, _, value in _Reader(data).fields():
        if field_number in KINDS:
            kind, content = KINDS[field_number], value
    items = [(wire, value) for field_number, wire, value in _Reader(content).fields() if field_number == 1]
    if kind == "bytes":
        return Feature(kind, [bytes(value) for _, value in items])
    if kind in _FIXED:
        joined = b"".join(bytes(value) for _, value in items)
        if len(joined) % _FIXED[kind].itemsize:
            raise DataError(
                f"expected whole numbers of {_FIXED[kind].itemsize} bytes, got {len(joined)} bytes of them"
            )
        return Feature(kind, np.frombuffer(joined, _FIXED[kind]))
    numbers = [_unpacked(value) if wire == _LENGTH else np.array([value], np.uint64) for wire, value in items]
    joined_numbers = np.concatenate([np.empty(0, np.uint64), *numbers])
    return Feature(kind, joined_numbers.view(np.int64).astype(_INTEGERS[kind]))


def _unpacked(data: memoryview) -> np.ndarray:
    """Integers of variable lengths, one after the other."""
    octets = np.frombuffer(data, np.uint8)
    last = np.flatnonzero(octets < 128)
    if len(octets) and (not len(last) or last[-1] != len(octets) - 1):
        raise DataError("expected a list of integers, got one that ends inside of an integer")
    if not len(octets):
        return np.empty(0, np.uint64)
    first = np.concatenate([[0], last[:-1] + 1])
    if (last - first >= _MAX_VARINT_BYTES).any():
        raise DataError("expected a list of integers, got an integer of more than 10 bytes")
    byte_index = np.arange(len(octets)) - np.repeat(first, last - first + 1)
    parts = (octets & 127).astype(np.uint64) << (7 * byte_index).astype(np.uint64)
    return np.add.reduceat(parts, first)


def one_value(record: bytes | memoryview, name: str) -> bytes:
    """The one value of a feature of bytes.

    Raises:
        DataError: the feature has other values.
    """
    found = feature(record, name)
    if found.kind != "bytes" or len(found.values) != 1:
        raise DataError(
            f"expected the feature {name!r} with one value of bytes, got {len(found.values)} of kind {found.kind}"
        )
    value: bytes = found.values[0]
    return value


# Files of records


def part_paths(data_dir: str, data_part_num: int, part_name_prefix: str, part_name_suffix_length: int) -> list[Path]:
    """The files of a folder: the prefix and a number, with zeros before it up to a length."""
    numbers = (str(i).rjust(max(part_name_suffix_length, 1), "0") for i in range(data_part_num))
    return [Path(data_dir) / f"{part_name_prefix}{number}" for number in numbers]


def _lengths(path: Path) -> Iterator[tuple[Any, int]]:
    """The open file at each record, and the length of the record; the file may be left anywhere.

    Raises:
        DataError: there is no such file, or it ends inside of a record.
    """
    try:
        size = path.stat().st_size
        file = path.open("rb")
    except (OSError, ValueError) as error:
        raise DataError(f"expected the file {path} of records: {error}; see data_dir and data_part_num") from None
    with file:
        at = 0
        while at < size:
            file.seek(at)
            prefix = file.read(_PREFIX)
            length = int.from_bytes(prefix, "little", signed=True)
            left = size - at - _PREFIX
            if len(prefix) < _PREFIX or not 0 < length <= left:
                raise DataError(
                    f"{path}: expected a record of {length} bytes at byte {at}, got a file with {left} more"
                )
            yield file, length
            at += _PREFIX + length


def most_bytes(paths: Sequence[Path]) -> int:
    """The length of the longest record of files, 1 at least."""
    return max((length for path in paths for _, length in _lengths(path)), default=1)


def records(paths: Sequence[Path], shuffle_after_epoch: bool) -> Iterator[bytes]:
    """The records of files in order, again and again; the order of the files is another one in each later round.

    Raises:
        DataError: no file has a record, or a file cannot be read.
    """
    order, epoch = list(paths), 0
    while True:
        count = 0
        for path in order:
            for file, length in _lengths(path):
                count += 1
                yield file.read(length)
        if not count:
            raise DataError(f"expected records in {', '.join(map(str, paths)) or 'data_part_num files'}, got none")
        epoch += 1
        if shuffle_after_epoch:
            random.Random(epoch).shuffle(order)


def shuffled(items: Iterator[Any], buffer_size: int, seed: int) -> Iterator[Any]:
    """Items in random order: each comes out of a buffer, and the next of `items` takes its place."""
    drawn = random.Random(seed)
    buffer = [next(items) for _ in range(buffer_size)]
    for item in items:
        slot = drawn.randrange(buffer_size)
        buffer[slot], item = item, buffer[slot]
        yield item
