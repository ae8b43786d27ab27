"""`oneflow-prefer-channels-last`: convolutions become channels-last (NHWC) convolutions between transposes.

    %y = "oneflow.conv2d"(%x, %w) {data_format = "channels_first", ..}
      ->   %y = transpose("oneflow.conv2d"(transpose(%x), transpose(%w)) {data_format = "channels_last", ..})

The reduction dimension is then contiguous in memory, as required by tensor cores. Images of few channels, such as
photographs, are padded with channels of zeros, so that they are loaded in vectors too. `oneflow-choose-layouts`
removes most of the transposes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.builder import Value
from oneflow.dialect.ir_builder import IRBuilder
from oneflow.dialect.record import Call, Registry
from oneflow.lowering.targets.instructions import TMA
from oneflow.passes.base import Pass
from oneflow.passes.registry import register_pass

CONVOLUTIONS = frozenset(
    f"{dialect.PREFIX}{n}"
    for n in ("conv1d", "conv2d", "conv3d", "deconv1d", "deconv2d", "deconv3d", "conv_data_grad", "conv_filter_grad")
)
#: The least rank of an image: batch, channels and one spatial dimension.
MIN_RANK = 3
#: Channels are padded to multiples of this number: rows of f16 that descriptors can read.
CHANNEL_MULTIPLE = TMA.alignment_bytes // 2
#: The operands whose channels may be padded.
PADDED = frozenset({"in", "weight", "x", "filter", "x_like"})
#: The operands that are filters: their second dimension is the channels of a group.
FILTERS = frozenset({"weight", "filter"})
#: The operand whose first dimension is the channels of a padded operand, by operator.
REDUCED = {f"deconv{n}d": "weight" for n in (1, 2, 3)}


@register_pass
@dataclass(frozen=True)
class PreferChannelsLast(Pass):
    """Computes channels-first convolutions channels-last, with channels in multiples of 8, padded where necessary.

    Convolutions in groups are rewritten where the channels of each group are multiples of 8.

        %y = "oneflow.conv2d"(%x, %w) {data_format = "channels_first"}
          ->   %a = "oneflow.transpose"(%x) ; %b = "oneflow.transpose"(%w)
               %c = "oneflow.conv2d"(%a, %b) {data_format = "channels_last"} ; %y = "oneflow.transpose"(%c)
    """

    name: ClassVar[str] = "oneflow-prefer-channels-last"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Rewrites every convolution that fits."""
        operations: list[ir.Operation] = []
        dialect.walk(module.operation, operations.append)
        for op in operations:
            if op.name in CONVOLUTIONS and _fits(op, registry):
                _rewrite(op, registry)


def _is_image(value: Value) -> bool:
    return bool(value.rank >= MIN_RANK)


def _fits(op: ir.Operation, registry: Registry) -> bool:
    """Whether a convolution has channels first, in multiples of 8 for each group or such that padding is possible."""
    call = IRBuilder(registry).call_of(op)
    images = {n: v.shape for n, v in call.inputs.items() if v is not None and _is_image(v)}
    known = all(None not in shape and shape[0] * shape[1] > 0 for shape in images.values())
    is_aligned = known and all(shape[1] % CHANNEL_MULTIPLE == 0 for n, shape in images.items() if n not in PADDED)
    is_fitting = is_aligned and len(images) > 1 and call.data_format == "channels_first"
    return is_fitting and (call.groups == 1 or _has_whole_groups(call, images))


def _has_whole_groups(call: Call, images: Mapping[str, Sequence[int | None]]) -> bool:
    """Whether the channels of a group are multiples of 8 in all images and filters: these are not padded."""
    channels = CHANNEL_MULTIPLE * call.groups
    multiples = ((shape, (channels, CHANNEL_MULTIPLE) if name in FILTERS else (1, channels))
                 for name, shape in images.items())  # fmt: skip
    is_whole = all((shape[axis] or 0) % n == 0 for shape, pair in multiples for axis, n in enumerate(pair))
    return is_whole and call.record.name not in REDUCED


def _rewrite(op: ir.Operation, registry: Registry) -> None:
    ops = IRBuilder(registry, ir.InsertionPoint(op), op.location)
    call = ops.call_of(op)
    operands: dict[str, Any] = {
        n: _channels_last(ops, v, n == REDUCED.get(call.record.name)) for n, v in call.inputs.items()
    }
    attrs = {**call.attrs, "data_format": "channels_last"}
    if call.record.name in REDUCED:
        attrs["filters"] = 0  # as many as the padded weight has
    result = ops.call(call.record.name, *operands.values(), **attrs)[0]
    channels = ir.RankedTensorType(op.results[0].type).shape[1]
    if result.shape[-1] > channels:
        result = ops.narrow(result, dim=result.rank - 1, start=0, length=channels)
    to_first = [0, result.rank - 1, *range(1, result.rank - 1)]
    op.results[0].replace_all_uses_with(ops.transpose(result, perm=to_first).handle)
    op.erase()


def _channels_last(ops: IRBuilder, value: Value | None, is_reduced: bool) -> Value | None:
    """An image operand channels-last and padded, with `is_reduced` also along its first dimension."""
    if value is None or not _is_image(value):
        return value
    spatial = range(2, value.rank)
    transposed: Value = ops.transpose(value, perm=[0, *spatial, 1])
    first, channels = value.shape[0] or 0, value.shape[1] or 0
    missing = [-first % CHANNEL_MULTIPLE if is_reduced else 0, *(0 for _ in spatial), -channels % CHANNEL_MULTIPLE]
    if not any(missing):
        return transposed
    padded: Value = ops.pad(transposed, padding_before=[0] * value.rank, padding_after=missing)
    return padded
