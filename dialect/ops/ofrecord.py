"""Records of OneFlow from files, and their features, on the host.

A list of records is a tensor (records, bytes) with zero padding after each record; see `dialect.ofrecord`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.image_files import CHANNELS, decode
from oneflow.dialect.numpy_kernel import DataError, numpy_kernel
from oneflow.dialect.ofrecord import feature, one_value, part_paths, records, shuffled
from oneflow.dialect.ops.file_batches import expect_shard, local_shard, rows_of, split_batch
from oneflow.dialect.ops.image_decoding import (
    CROPPED,
    cutter,
    expect_color_space,
    expect_crop,
    expect_files,
    local_begin,
)
from oneflow.dialect.ops.image_lists import expect_most, mapped, padded, size_desc
from oneflow.dialect.ops.random import RANDOM
from oneflow.dialect.ops.source import NO_OPERAND
from oneflow.dialect.reader_kernel import AXIS_SHARD, Batch, first_batch, local_items, reader_kernel, whole_batch
from oneflow.dialect.record import Call, Rule, define, no_grad
from oneflow.dialect.sbp import Factors
from oneflow.dialect.shapes import expect_dtype
from oneflow.dialect.tensor_desc import TensorDesc

FROM_FILES = no_grad("the records come from files")
#: The attributes of what reads files of records.
FILES = (
    "data_dir: string, data_part_num: int32 = 0, batch_size: int32 = 0, part_name_prefix: string = 'part-',"
    " part_name_suffix_length: int32 = -1, random_shuffle: bool = False, seed: int64 = -1,"
    " shuffle_buffer_size: int32 = 1024, shuffle_after_epoch: bool = False"
)
DECODED = "name: string, color_space: string = 'BGR'"
MAX_SIZE = "max_size: shape"
RAW = (
    dtypes.uint8, dtypes.int8, dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64,
)  # fmt: skip


def _expect_parts(op: Call) -> None:
    expect_shard(op)
    if op.data_part_num < 1 or op.part_name_suffix_length < -1:
        raise op.error(
            "expected data_part_num of at least 1 and part_name_suffix_length of at least -1, got"
            f" {op.data_part_num} and {op.part_name_suffix_length}"
        )
    if op.random_shuffle and op.shuffle_buffer_size < 1:
        raise op.error(f"expected shuffle_buffer_size of at least 1, got {op.shuffle_buffer_size}")


def _batches(attrs: dict[str, Any]) -> Iterator[list[bytes]]:
    """The records that a device keeps of each batch."""
    names = ("data_dir", "data_part_num", "part_name_prefix", "part_name_suffix_length")
    source = records(part_paths(*(attrs[n] for n in names)), attrs["shuffle_after_epoch"])
    if attrs["random_shuffle"]:
        source = shuffled(source, attrs["shuffle_buffer_size"], attrs["seed"])
    while True:
        yield local_items(list(itertools.islice(source, whole_batch(attrs))), attrs)


def _read_records(**attrs: Any) -> Iterator[Batch]:
    for batch in _batches(attrs):
        yield (rows_of(batch, attrs["record_bytes"], "record", "record_bytes"),)


def _record_types(op: Call) -> TensorDesc:
    _expect_parts(op)
    if op.record_bytes < 1:
        raise op.error(f"expected record_bytes of at least 1, the most that a record has, got {op.record_bytes}")
    return TensorDesc((op.batch_size, op.record_bytes), dtypes.uint8)


define(
    f"ofrecordreader({FILES}, record_bytes: int64, {AXIS_SHARD}) -> out",
    doc="The next records of files, in order, and from the start again after the last.\n\n"
    "The files are `part_name_prefix` and a number, which has zeros before it up to `part_name_suffix_length`.\n"
    "`random_shuffle` takes records out of a buffer of `shuffle_buffer_size` records, in an order that `seed` sets;\n"
    "`shuffle_after_epoch` changes the order of the files after each round. `record_bytes` is the largest size of a\n"
    "record in bytes. Each call of a loaded program has a position of its own in the data.",
    types=_record_types, sbp=split_batch, local=local_shard, grad=NO_OPERAND, pure=False,
    reference=first_batch(_read_records), kernel=reader_kernel(_read_records), oneflow_name="OFRecordReader",
)  # fmt: skip


def _image_and_label(record: bytes, attrs: dict[str, Any]) -> tuple[np.ndarray, int]:
    image = decode(one_value(record, attrs["image_feature_name"]), attrs["color_space"], attrs["max_size"])
    name = attrs["label_feature_name"]
    label = feature(record, name)
    if label.kind not in ("int32", "int64") or len(label.values) != 1:
        raise DataError(
            f"expected the feature {name!r} with one integer, got {len(label.values)} of kind {label.kind}"
        )
    return image, int(label.values[0])


def _read_images(**attrs: Any) -> Iterator[Batch]:
    for batch in _batches(attrs):
        pairs = list(mapped(lambda record: _image_and_label(record, attrs), batch, "record"))
        shape = (len(batch), *attrs["max_size"], CHANNELS[attrs["color_space"]])
        images, sizes = padded((image for image, _ in pairs), shape, np.dtype(np.uint8))
        yield images, np.array([[label] for _, label in pairs], np.int64).astype(np.int32), sizes


def _image_reader_types(op: Call) -> tuple[TensorDesc, ...]:
    _expect_parts(op)
    image = TensorDesc((op.batch_size, *expect_most(op, op.max_size), expect_color_space(op)), dtypes.uint8)
    return image, TensorDesc((op.batch_size, 1), dtypes.int32), size_desc(op.batch_size)


define(
    f"ofrecord_image_classification_reader({FILES}, color_space: string = 'BGR',"
    " image_feature_name: string = 'encoded', label_feature_name: string = 'class/label',"
    f" decode_buffer_size_per_thread: int32 = 8, num_decode_threads_per_machine: int32 = 0, {MAX_SIZE}, {AXIS_SHARD})"
    " -> image, label, image_size",
    doc="The images of the next records as `ofrecordreader` reads them, their labels (i32) and their sizes.\n\n"
    "Images are decoded as by `image_decode`. `decode_buffer_size_per_thread` and\n"
    "`num_decode_threads_per_machine` are ignored.",
    types=_image_reader_types, sbp=split_batch, local=local_shard, grad=NO_OPERAND, pure=False,
    reference=first_batch(_read_images), kernel=reader_kernel(_read_images),
)  # fmt: skip


def _each_record(x: Any, function: Any) -> Iterator[Any]:
    return mapped(lambda row: function(row.tobytes()), x, "record")


def _decoder(signature: str, doc: str, types: Rule, sbp: str, function: Any, **slots: Any) -> None:
    """Registers an operator on a list of records."""
    define(
        signature, doc=doc, types=types, sbp=slots.pop("rule", lambda op: Factors(sbp)), grad=FROM_FILES,
        reference=function, kernel=numpy_kernel(function), depth=2, **slots,
    )  # fmt: skip


def _bytes_types(op: Call) -> tuple[TensorDesc, TensorDesc]:
    expect_files(op)
    return TensorDesc(op.in_.shape, dtypes.uint8), TensorDesc(op.in_.shape[:1], dtypes.int64)


def _numpy_bytes(x: Any, *, name: Any) -> Any:
    values = list(_each_record(x, lambda record: one_value(record, name)))
    return rows_of(values, x.shape[1], "record", "the bytes of a record,"), np.array(
        [len(v) for v in values], np.int64
    )


_decoder(
    "ofrecord_bytes_decoder(in, name: string) -> out, out_size",
    "The bytes of a feature of each record, with zero padding after them; and how many there are (i64).",
    _bytes_types, "n _ -> n _, n", _numpy_bytes,
)  # fmt: skip


def _raw_types(op: Call) -> TensorDesc:
    expect_files(op)
    expect_dtype(op, "data_type", TensorDesc((), op.data_type), RAW)
    if any(n < 0 for n in op.shape):
        raise op.error(f"expected sizes of at least 0 in shape, got {list(op.shape)}")
    return TensorDesc((op.in_.shape[0], *op.shape), op.data_type)


def _numbers(record: bytes, name: str) -> Any:
    found = feature(record, name)
    if found.kind != "bytes":
        return found.values
    return np.frombuffer(one_value(record, name), np.int8)


def _numpy_raw(x: Any, *, name: Any, shape: Any, data_type: Any, dim1_varying_length: Any, truncate: Any) -> Any:
    out = np.zeros((len(x), *shape), data_type.numpy)
    rows = out.reshape(len(x), int(np.prod(shape)))

    def write(index: int) -> None:
        values, row = _numbers(x[index].tobytes(), name), rows[index]
        is_short = len(values) < len(row)
        if len(values) != len(row) and not truncate and not (dim1_varying_length and is_short):
            remedy = "" if dim1_varying_length else "; truncate=true drops or zero-fills values"
            raise DataError(f"expected {len(row)} values of the feature {name!r}, got {len(values)}{remedy}")
        row[: len(values)] = values[: len(row)].astype(row.dtype)

    list(mapped(write, range(len(x)), "record"))
    return out


_decoder(
    "ofrecord_raw_decoder(in, name: string, shape: shape, data_type: data_type, dim1_varying_length: bool = False,"
    " truncate: bool = False) -> out",
    "The values of a feature of each record as a tensor of the shape `shape`.\n\n"
    "With `truncate` values beyond are left out and missing ones are 0; with `dim1_varying_length` missing ones are\n"
    "0. Bytes are integers from -128 to 127.",
    _raw_types, "", _numpy_raw, rule=lambda op: Factors(f"n _ -> n{' _' * len(op.shape)}"),
)  # fmt: skip


def _image_types(op: Call) -> tuple[TensorDesc, TensorDesc]:
    expect_files(op)
    if "random_area" in op.attrs:
        expect_crop(op)
    images = op.in_.shape[0]
    shape = (images, *expect_most(op, op.max_size), expect_color_space(op))
    return TensorDesc(shape, dtypes.uint8), size_desc(images)


def _decoded(x: Any, attrs: dict[str, Any]) -> Iterator[np.ndarray]:
    space, most = attrs["color_space"], attrs["max_size"]
    return _each_record(x, lambda record: decode(one_value(record, attrs["name"]), space, most, is_oriented=False))


def _unsplit(operand: TensorDesc | None) -> list[str]:
    """The factors of an operand that stays whole; none where the operand is missing."""
    return [] if operand is None else [" ".join("_" * operand.rank)]


def _image_shape(x: Any, attrs: dict[str, Any]) -> tuple[int, ...]:
    return (len(x), *attrs["max_size"], CHANNELS[attrs["color_space"]])


def _numpy_image(x: Any, **attrs: Any) -> Any:
    return padded(_decoded(x, attrs), _image_shape(x, attrs), np.dtype(np.uint8))


def _numpy_part(x: Any, offset: Any, **attrs: Any) -> Any:
    parts = map(cutter(attrs, offset), enumerate(_decoded(x, attrs)))
    return padded(parts, _image_shape(x, attrs), np.dtype(np.uint8))


_decoder(
    f"ofrecord_image_decoder(in, {DECODED}, {MAX_SIZE}) -> out, out_size",
    "The images in a feature of records, u8 of at most `max_size`, rows and columns; and their sizes.",
    _image_types, "n _ -> n _ _ _, n _", _numpy_image,
)  # fmt: skip
_decoder(
    f"ofrecord_image_decoder_random_crop(in, offset?, {DECODED}, {CROPPED}, {MAX_SIZE}) -> out, out_size",
    "Random parts, as of `image_random_crop`, of the images in a feature of records of at most `max_size`; and\n"
    "their sizes.",
    _image_types, "", _numpy_part, local=local_begin, traits=RANDOM,
    rule=lambda op: Factors(f"{', '.join(['n _', *_unsplit(op.offset)])} -> n _ _ _, n _"),
)  # fmt: skip
