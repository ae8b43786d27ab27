"""Modules that read files: records of OneFlow and what is in them, COCO, tokens, tensors.

    reader = nn.OFRecordReader("data", batch_size=32, data_part_num=8, part_name_suffix_length=5)
    label = nn.OFRecordRawDecoder("class/label", shape=(), dtype=flow.int32)
    image = nn.OFRecordImageDecoder("encoded", color_space="RGB")
    records = reader()
    batch, _, _ = nn.image.Resize((224, 224))(image(records))

A reader has a position in its data. In eager mode, the position belongs to the module; each compiled function has one
of its own.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.coco import images_of
from oneflow.dialect.dtypes import DType
from oneflow.dialect.image_files import size_of
from oneflow.dialect.ofrecord import most_bytes, one_value, part_paths
from oneflow.dialect.reader_kernel import Position
from oneflow.dialect.record import REGISTRY, Call, attribute_values, infer
from oneflow.frontend.core.dispatch import as_tensor, current_builder, dispatch, dispatch_all
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.factories import tensor_factory
from oneflow.frontend.core.generator import Generator, default_generator
from oneflow.frontend.functional.random import random_offset
from oneflow.frontend.nn.image_lists import Bound, ImageList, image_list
from oneflow.frontend.nn.module import Module

__all__ = [
    "COCOReader", "GPTIndexedBinDataReader", "OFRecordBytesDecoder", "OFRecordImageDecoder",
    "OFRecordImageDecoderRandomCrop", "OFRecordRawDecoder", "OFRecordReader", "RawReader",
]  # fmt: skip


#: The readers of each function that is being traced.
_READ_IN: weakref.WeakKeyDictionary[Any, weakref.WeakSet[Module]] = weakref.WeakKeyDictionary()


@tensor_factory
def _placed(tensor: Any) -> Any:
    return tensor


class Reader(Module):
    """A module that reads a batch in each call by an operator without operands.

    `device`, or `placement` and `sbp`, are the device or the ranks of the batch.
    """

    def __init__(self, operator: str, options: dict[str, Any], device: Any, placement: Any, sbp: Any) -> None:
        super().__init__()
        self.operator, self.options = operator, options
        self.tensor_options = {"device": device, "placement": placement, "sbp": sbp}

    @functools.cached_property
    def attrs(self) -> dict[str, Any]:
        """The attributes of the operator."""
        return self.options

    @functools.cached_property
    def _position(self) -> Position:
        record: Any = REGISTRY[self.operator]
        operands = {arg.name: None for arg in record.signature.inputs}
        call = Call(record, operands, attribute_values(record, self.attrs))
        infer(record, call)
        return Position(record.kernel.batches, call.attrs)

    def read(self) -> tuple[Any, ...]:
        """The tensors of the next batch.

        Raises:
            OneFlowError: the files cannot be read, or a compiled function reads twice.
        """
        builder = current_builder()
        if builder.eager:
            try:
                results = [as_tensor(array) for array in self._position.read()]
            except ValueError as error:
                raise fail(str(error)) from None
        else:
            if self in _READ_IN.setdefault(builder, weakref.WeakSet()):
                raise fail(
                    f"expected one call of a {type(self).__name__} in a compiled function, whose calls would read the"
                    " same data; read a larger batch, or pass batches in"
                )
            _READ_IN[builder].add(self)
            results = list(dispatch_all(self.operator, **self.attrs))
        return tuple(_placed(x, **self.tensor_options) for x in results)

    def extra_repr(self) -> str:
        """The options."""
        return ", ".join(f"{k}={v!r}" for k, v in self.options.items())


def seed_of(random_seed: int | None) -> int:
    """A stated seed, or the next one of the generator of the thread."""
    return default_generator.next() % 2**63 if random_seed is None or random_seed < 0 else random_seed


class OFRecordReader(Reader):
    """The next `batch_size` records of `data_part_num` files: (records, bytes) of uint8, padded with zeros.

    The names of the files are `part_name_prefix` and a number, with zeros before it up to `part_name_suffix_length`.
    After the last record, reading starts from the first. `random_shuffle` takes records out of a buffer of
    `shuffle_buffer_size` records; `shuffle_after_epoch` changes the order of the files after each round.
    `record_bytes` is the most bytes of a record, by default the length of the longest record in the files.
    """

    def __init__(
        self,
        ofrecord_dir: str | Path,
        batch_size: int = 1,
        data_part_num: int = 1,
        part_name_prefix: str = "part-",
        part_name_suffix_length: int = -1,
        random_shuffle: bool = False,
        shuffle_buffer_size: int = 1024,
        shuffle_after_epoch: bool = False,
        random_seed: int | None = -1,
        device: Any = None,
        placement: Any = None,
        sbp: Any = None,
        record_bytes: int | None = None,
    ) -> None:
        options = {
            "data_dir": str(ofrecord_dir), "data_part_num": data_part_num, "batch_size": batch_size,
            "part_name_prefix": part_name_prefix, "part_name_suffix_length": part_name_suffix_length,
            "random_shuffle": random_shuffle, "shuffle_buffer_size": shuffle_buffer_size,
            "shuffle_after_epoch": shuffle_after_epoch, "seed": seed_of(random_seed) if random_shuffle else -1,
        }  # fmt: skip
        super().__init__("ofrecordreader", options, device, placement, sbp)
        self.record_bytes = record_bytes

    @functools.cached_property
    def attrs(self) -> dict[str, Any]:
        """The attributes of the operator; without `record_bytes`, the files are searched for the longest record."""
        names = ("data_dir", "data_part_num", "part_name_prefix", "part_name_suffix_length")
        try:
            most = self.record_bytes or most_bytes(part_paths(*(self.options[name] for name in names)))
        except ValueError as error:
            raise fail(str(error)) from None
        return {**self.options, "record_bytes": most}

    def forward(self) -> Any:
        """The records."""
        return self.read()[0]


class COCOReader(Reader):
    """The next images of COCO with at least one object: `(image, image_id, image_size, gt_bbox, gt_label, gt_segm,
    gt_segm_index)`.

    `image` are the files for `nn.image.decode`, (images, bytes), padded with zeros; `image_size` heights and
    widths. Boxes (images, objects, 4) are left, top, right and bottom, labels count from 1 and are 0 where an image
    has no more objects. `gt_segm` are the points (images, points, 2) of polygons, `gt_segm_index` the indices of each
    point in its polygon, of the polygon in the object and of the object, -1 where an image has no more points.
    `group_by_aspect_ratio` makes batches of images whose height is the same whole multiple of the width.
    """

    def __init__(
        self,
        annotation_file: str | Path,
        image_dir: str | Path,
        batch_size: int,
        shuffle: bool = True,
        random_seed: int | None = None,
        group_by_aspect_ratio: bool = True,
        remove_images_without_annotations: bool = True,
        stride_partition: bool = True,
        device: Any = None,
        placement: Any = None,
        sbp: Any = None,
    ) -> None:
        options = {
            "annotation_file": str(annotation_file), "image_dir": str(image_dir), "batch_size": batch_size,
            "shuffle_after_epoch": shuffle, "random_seed": seed_of(random_seed) if shuffle else -1,
            "group_by_ratio": group_by_aspect_ratio, "stride_partition": stride_partition,
            "remove_images_without_annotations": remove_images_without_annotations,
        }  # fmt: skip
        super().__init__("cocoreader", options, device, placement, sbp)

    @functools.cached_property
    def attrs(self) -> dict[str, Any]:
        """The attributes of the operator, with the most that an image has."""
        names = ("annotation_file", "image_dir", "remove_images_without_annotations")
        try:
            images = images_of(*(self.options[name] for name in names))
            sizes = [image.path.stat().st_size for image in images]
        except (OSError, ValueError) as error:
            raise fail(str(error)) from None
        return {
            **self.options, "image_bytes": max(sizes, default=1),
            "max_objects": max((len(image.labels) for image in images), default=0),
            "max_points": max((image.point_count for image in images), default=0),
        }  # fmt: skip

    def forward(self) -> tuple[Any, ...]:
        """The batch."""
        return self.read()


class GPTIndexedBinDataReader(Reader):
    """The next `batch_size` samples of `seq_length` tokens followed by a label, in Megatron's files of documents.

    The files are `data_file_prefix` with .idx and .bin. The documents are the documents of the part `split_index`,
    whose sizes `split_sizes` are fractions of all. After the epochs that `num_samples` samples need, reading is an
    error.
    """

    def __init__(
        self,
        data_file_prefix: str | Path,
        seq_length: int,
        num_samples: int,
        batch_size: int,
        dtype: DType = dtypes.int64,
        shuffle: bool = True,
        random_seed: int | None = None,
        split_sizes: Sequence[int] | None = None,
        split_index: int | None = None,
        device: Any = None,
        placement: Any = None,
        sbp: Any = None,
    ) -> None:
        sizes = [1] if split_sizes is None else list(split_sizes)
        options = {
            "data_file_prefix": str(data_file_prefix), "seq_length": seq_length, "label_length": 1,
            "num_samples": num_samples, "batch_size": batch_size, "dtype": dtype, "split_sizes": sizes,
            "split_index": split_index or 0, "shuffle": shuffle,
            "random_seed": seed_of(random_seed) if shuffle else 0,
        }  # fmt: skip
        super().__init__("megatron_gpt_mmap_data_loader", options, device, placement, sbp)

    def forward(self) -> Any:
        """The tokens: (batch_size, seq_length + 1)."""
        return self.read()[0]


class RawReader(Reader):
    """The next `batch_size` tensors of the shape `shape` in files, where they are stored one after the other, as in
    memory.

    `random_shuffle` makes batches of blocks of `shuffle_block_size` tensors, 0 for whole batches, in random orders.
    """

    def __init__(
        self,
        files: Sequence[str | Path],
        shape: Sequence[int],
        dtype: DType,
        batch_size: int,
        random_shuffle: bool = True,
        shuffle_block_size: int = 0,
        random_seed: int | None = None,
        placement: Any = None,
        sbp: Any = None,
    ) -> None:
        options = {
            "files": list(map(str, files)), "shape": list(shape), "data_type": dtype, "batch_size": batch_size,
            "random_shuffle": random_shuffle, "shuffle_block_size": shuffle_block_size,
            "seed": seed_of(random_seed) if random_shuffle else 0,
        }  # fmt: skip
        super().__init__("raw_reader", options, None, placement, sbp)

    def forward(self) -> Any:
        """The tensors."""
        return self.read()[0]


class OFRecordBytesDecoder(Module):
    """The bytes of the feature `blob_name` of records, (records, bytes) of uint8, padded with zeros."""

    def __init__(self, blob_name: str) -> None:
        super().__init__()
        self.blob_name = blob_name

    def forward(self, input: Any) -> Any:
        """The bytes."""
        return dispatch_all("ofrecord_bytes_decoder", as_tensor(input), name=self.blob_name)[0]


class OFRecordRawDecoder(Module):
    """The values of the feature `blob_name` of records: a tensor of the shape `shape` for each record.

    With `truncate`, values beyond are left out and missing ones are 0; with `dim1_varying_length` missing ones are 0.
    """

    def __init__(
        self,
        blob_name: str,
        shape: Sequence[int],
        dtype: DType,
        dim1_varying_length: bool = False,
        truncate: bool = False,
        auto_zero_padding: bool = False,
    ) -> None:
        super().__init__()
        self.options = {
            "name": blob_name, "shape": list(shape), "data_type": dtype, "dim1_varying_length": dim1_varying_length,
            "truncate": truncate or auto_zero_padding,
        }  # fmt: skip

    def forward(self, input: Any) -> Any:
        """The values."""
        return dispatch("ofrecord_raw_decoder", as_tensor(input), **self.options)

    def extra_repr(self) -> str:
        """The options."""
        return ", ".join(f"{k}={v!r}" for k, v in self.options.items())


class OFRecordImageDecoder(Module):
    """The images in the feature `blob_name` of records, an `ImageList` of uint8.

    In compiled functions `max_size` is needed, the most rows and columns of an image; larger images are errors.
    """

    def __init__(self, blob_name: str, color_space: str = "BGR", max_size: Sequence[int] | None = None) -> None:
        super().__init__()
        self.blob_name, self.color_space, self.bound = blob_name, color_space, Bound(max_size)

    def options(self, records: Any) -> dict[str, Any]:
        """The attributes of the operator for these records."""
        most = self.bound.of(records, self._sizes, f"nn.{type(self).__name__}")
        return {"name": self.blob_name, "color_space": self.color_space, "max_size": most}

    def _sizes(self, records: np.ndarray) -> list[tuple[int, int]]:
        try:
            files = (one_value(record.tobytes(), self.blob_name) for record in records)
            return [size_of(file, is_oriented=False) for file in files]
        except ValueError as error:
            raise fail(str(error)) from None

    def forward(self, input: Any) -> ImageList:
        """The images."""
        records = as_tensor(input)
        return image_list("ofrecord_image_decoder", records, **self.options(records))


class OFRecordImageDecoderRandomCrop(OFRecordImageDecoder):
    """Random parts of the images in the feature `blob_name` of records, an `ImageList` of uint8.

    A part has a fraction of the area out of `random_area`, and a width over its height out of `random_aspect_ratio`;
    what does not fit is drawn again up to `num_attempts` times. Parts with a `random_seed` are drawn from it, others
    from the generator of the thread.
    """

    def __init__(
        self,
        blob_name: str,
        color_space: str = "BGR",
        num_attempts: int = 10,
        random_seed: int | None = None,
        random_area: Sequence[float] = (0.08, 1.0),
        random_aspect_ratio: Sequence[float] = (0.75, 1.333333),
        max_size: Sequence[int] | None = None,
    ) -> None:
        super().__init__(blob_name, color_space, max_size)
        self.crop = {
            "num_attempts": num_attempts, "random_area": list(random_area),
            "random_aspect_ratio": list(random_aspect_ratio), "seed": 0,
        }  # fmt: skip
        self.generator = None if random_seed is None else Generator().manual_seed(random_seed)

    def forward(self, input: Any) -> ImageList:
        """The parts."""
        records = as_tensor(input)
        options = {**self.options(records), **self.crop}
        return image_list("ofrecord_image_decoder_random_crop", records, random_offset(self.generator), **options)
