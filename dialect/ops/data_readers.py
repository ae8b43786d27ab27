"""Images and objects of COCO, documents of tokens and raw tensors out of files, on the host."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.coco import Image, grouped, images_of, in_order
from oneflow.dialect.external import ExternalKernel, as_array, python_kernel
from oneflow.dialect.numpy_kernel import DataError
from oneflow.dialect.ops.file_batches import expect_shard, local_shard, rows_of, split_batch
from oneflow.dialect.ops.source import NO_OPERAND
from oneflow.dialect.raw_files import Instances, batch_indices
from oneflow.dialect.reader_kernel import (
    AXIS_SHARD,
    Batch,
    ReaderKernel,
    first_batch,
    local_items,
    reader_kernel,
    whole_batch,
)
from oneflow.dialect.record import Call, define, no_grad, operator
from oneflow.dialect.sbp import B, S, SbpSignature
from oneflow.dialect.shapes import expect_dtype
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.dialect.token_files import Documents, Samples

LIMITS = ("image_bytes", "max_objects", "max_points")


def _coco_types(op: Call) -> tuple[TensorDesc, ...]:
    expect_shard(op)
    if op.image_bytes < 1 or min(op.max_objects, op.max_points) < 0:
        raise op.error(
            "expected image_bytes of at least 1, max_objects and max_points of at least 0, got"
            f" {', '.join(str(op.attrs[name]) for name in LIMITS)}"
        )
    images, objects, points = op.batch_size, op.max_objects, op.max_points
    return (
        TensorDesc((images, op.image_bytes), dtypes.uint8), TensorDesc((images,), dtypes.int64),
        TensorDesc((images, 2), dtypes.int32), TensorDesc((images, objects, 4), dtypes.float32),
        TensorDesc((images, objects), dtypes.int32), TensorDesc((images, points, 2), dtypes.float32),
        TensorDesc((images, points, 3), dtypes.int32),
    )  # fmt: skip


def _read_coco(**attrs: Any) -> Iterator[Batch]:
    names = ("annotation_file", "image_dir", "remove_images_without_annotations")
    images = images_of(*(attrs[name] for name in names))
    order, size = in_order(images, attrs["shuffle_after_epoch"], attrs["random_seed"]), whole_batch(attrs)
    batches = (
        grouped(order, size) if attrs["group_by_ratio"] else iter(lambda: list(itertools.islice(order, size)), [])
    )
    for batch in batches:
        yield _coco_batch(local_items(batch, attrs), attrs)


def _coco_batch(images: list[Image], attrs: dict[str, Any]) -> Batch:
    count, objects, points = len(images), attrs["max_objects"], attrs["max_points"]
    boxes, labels = np.zeros((count, objects, 4), np.float32), np.zeros((count, objects), np.int32)
    outlines, numbers = np.zeros((count, points, 2), np.float32), np.full((count, points, 3), -1, np.int32)
    for i, image in enumerate(images):
        has = len(image.labels)
        if has > objects or image.point_count > points:
            raise DataError(
                f"image {image.image_id}: expected at most max_objects {objects} objects and max_points {points}"
                f" points, got {has} and {image.point_count}"
            )
        boxes[i, :has], labels[i, :has] = np.array(image.boxes).reshape(-1, 4), image.labels
        outlines[i, : image.point_count], numbers[i, : image.point_count] = image.points()
    files = rows_of([image.read() for image in images], attrs["image_bytes"], "image", "image_bytes")
    sizes = np.array([(image.height, image.width) for image in images], np.int32).reshape(-1, 2)
    return files, np.array([image.image_id for image in images], np.int64), sizes, boxes, labels, outlines, numbers


define(
    "cocoreader(session_id: int64 = 0, annotation_file: string, image_dir: string, batch_size: int64 = 0,"
    " shuffle_after_epoch: bool = True, random_seed: int64 = -1, group_by_ratio: bool = True,"
    " remove_images_without_annotations: bool = True, stride_partition: bool = False, image_bytes: int64,"
    f" max_objects: int64, max_points: int64, {AXIS_SHARD})"
    " -> image, image_id, image_size, gt_bbox, gt_label, gt_segm, gt_segm_index",
    doc="The files of the next images of COCO, with zero padding after each, their ids, heights and widths, and the\n"
    "boxes (left, top, right, bottom), labels from 1, points of polygons and indices of the points of their\n"
    "objects.\n\n"
    "Labels of no object are 0, indices of no point -1. `group_by_ratio` makes batches of images whose height is\n"
    "the same whole multiple of the width. Images are read by their ids, or in random orders that `random_seed`\n"
    "sets. `image_bytes`, `max_objects` and `max_points` are the most that an image has. The session and the\n"
    "partition change nothing.",
    types=_coco_types, sbp=split_batch, local=local_shard, grad=NO_OPERAND, pure=False, oneflow_name="COCOReader",
    reference=first_batch(_read_coco), kernel=reader_kernel(_read_coco),
)  # fmt: skip


def _block(op: Call) -> int:
    """How many tensors stay together when a reader shuffles them."""
    size: int = op.logical_size or op.batch_size
    return op.shuffle_block_size if op.random_shuffle and op.shuffle_block_size > 0 else size


def _raw_types(op: Call) -> TensorDesc:
    expect_shard(op)
    expect_dtype(op, "data_type", TensorDesc((), op.data_type), dtypes.NUMERIC)
    size = op.logical_size or op.batch_size
    if not op.files or math.prod(op.shape) < 1 or min(op.shape, default=1) < 1:
        raise op.error(
            f"expected files and a shape of at least one element, got {list(op.files)} and {list(op.shape)}"
        )
    if size % _block(op):
        raise op.error(f"expected shuffle_block_size to divide the batch of {size}, got {op.shuffle_block_size}")
    return TensorDesc((op.batch_size, *op.shape), op.data_type)


def _read_raw(**attrs: Any) -> Iterator[Batch]:
    found = Instances(attrs["files"], attrs["shape"], attrs["data_type"].numpy)
    shuffle, size = attrs["random_shuffle"], whole_batch(attrs)
    block = attrs["shuffle_block_size"] if shuffle and attrs["shuffle_block_size"] > 0 else size
    for numbers in batch_indices(len(found), size, block, attrs["seed"] if shuffle else None):
        yield (np.stack([found[n] for n in local_items(numbers, attrs)]),)


define(
    "raw_reader(files: list_string, data_type: data_type, shape: shape, batch_size: int64, shuffle_block_size: int64,"
    f" random_shuffle: bool = True, seed: int64 = 0, {AXIS_SHARD}) -> out",
    doc="The next tensors of the shape `shape` in files, stored one after the other as in memory.\n\n"
    "The last batch of a round is filled up from the start. `random_shuffle` makes batches of blocks of\n"
    "`shuffle_block_size` tensors, 0 for the whole batch, in random orders that `seed` sets.",
    types=_raw_types, sbp=split_batch, local=local_shard, grad=NO_OPERAND, pure=False,
    reference=first_batch(_read_raw), kernel=reader_kernel(_read_raw),
)  # fmt: skip


def _batch_of_tokens(attrs: dict[str, Any]) -> Callable[[int], np.ndarray]:
    """The batch of an index, as a function."""
    samples = Samples(Documents(attrs["data_file_prefix"]), **attrs)

    def batch(batch_index: int) -> np.ndarray:
        first = batch_index * whole_batch(attrs) + attrs["logical_begin"]
        rows = [samples[first + i] for i in range(attrs["batch_size"])]
        return np.stack(rows).astype(attrs["dtype"].numpy)

    return batch


def _read_tokens(**attrs: Any) -> Iterator[Batch]:
    batch = _batch_of_tokens(attrs)
    for batch_index in itertools.count():
        yield (batch(batch_index),)


class _TokenKernel(ReaderKernel):
    """A kernel that gives the next batch, or the batch of an index."""

    def __call__(self, op: Call) -> ExternalKernel:
        """The external kernel of a call."""
        if op.iteration is None:
            return super().__call__(op)
        opened = functools.cache(lambda: _batch_of_tokens(op.attrs))
        descs = [*op.operands, *op.results]

        def run(buffers: Any, stream: Any) -> None:
            iteration, tokens, following = (as_array(buffers[i], desc) for i, desc in enumerate(descs))
            tokens[...] = opened()(int(iteration.reshape(())))
            following[...] = iteration + 1

        return python_kernel(run)


@operator(
    "megatron_gpt_mmap_data_loader(iteration?, data_file_prefix: string, seq_length: int64 = 0,"
    " label_length: int64 = 1, num_samples: int64 = 0, batch_size: int64 = 0, dtype: data_type,"
    " split_sizes: list_int64, split_index: int64 = 0, shuffle: bool = False, random_seed: int64 = 0,"
    f" {AXIS_SHARD}) -> out, iteration_out?"
)
class MegatronGptMmapDataLoader:
    """The next samples of `seq_length` tokens and a label after them, in documents in Megatron's files.

    With `iteration` (i64) it is the batch of that index, and one more is the second result. The documents are the
    documents of the part `split_index`, whose sizes `split_sizes` are shares of all. `shuffle` draws the orders of
    documents and samples by `random_seed`. Samples after the epochs that `num_samples` need are run-time errors.
    """

    grad = no_grad("the tokens come from files")
    pure = False
    local = local_shard

    def types(op: Call) -> tuple[TensorDesc, ...]:
        expect_shard(op)
        expect_dtype(op, "dtype", TensorDesc((), op.dtype), (dtypes.int32, dtypes.int64))
        if op.iteration is not None and (
            op.iteration.dtype != dtypes.int64 or op.iteration.element_count not in (1, None)
        ):
            raise op.error(f"expected iteration of one element of i64, got {op.iteration}")
        if min(op.seq_length, op.label_length, op.num_samples) < 1:
            raise op.error(
                "expected seq_length, label_length and num_samples of at least 1, got"
                f" {op.seq_length}, {op.label_length} and {op.num_samples}"
            )
        sizes = op.split_sizes
        if min(sizes, default=-1) < 0 or not sum(sizes) or not 0 <= op.split_index < len(sizes):
            raise op.error(
                "expected split_sizes of at least 0, not all 0, and split_index of one of them, got"
                f" {list(sizes)} and {op.split_index}"
            )
        tokens = TensorDesc((op.batch_size, op.seq_length + op.label_length), op.dtype)
        return (tokens,) if op.iteration is None else (tokens, op.iteration)

    def sbp(op: Call) -> list[SbpSignature]:
        return split_batch(op) if op.iteration is None else [SbpSignature((B,), (S(0), B))]

    def reference(iteration: Any, **attrs: Any) -> Any:
        if iteration is None:
            return next(_read_tokens(**attrs))
        return _batch_of_tokens(attrs)(int(iteration.reshape(()))), iteration + 1

    kernel = _TokenKernel(_read_tokens)
