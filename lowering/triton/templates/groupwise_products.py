"""Weight-only quantized products of few rows (int4 weights, int8 weights): groups of numbers share a scale, and
dequantization happens in registers.

    program: a block of columns of the result, with all rows
      for a step of the depth within one group:
        load a block of the packed weight, the scales and zero points of its rows, and the rows of x
        weight = (numbers - offset) * scale + zero, rounded to the type of x
        sums += weight x^T

The weight is the left operand of `tl.dot`: instructions of tensor cores read it from registers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from oneflow.dialect.quantized_weights import zero_point
from oneflow.dialect.record import Call
from oneflow.lowering.targets.instructions import MIN_DOT_SIDE
from oneflow.lowering.targets.selection import gpu_target
from oneflow.lowering.triton.codegen.emission import origins, program_id
from oneflow.lowering.triton.codegen.kernel import TYPES
from oneflow.lowering.triton.codegen.prelude import preamble
from oneflow.lowering.triton.source import Source, nested
from oneflow.lowering.triton.symbolic_sizes import TileCount, cdiv, power_of_two
from oneflow.lowering.triton.templates.outline_templates import (
    Template,
    TemplateInstance,
    TemplateKernel,
    is_half,
    register_template,
)


def _step_depth(group_size: int, bits: int) -> int:
    """The elements of a weight row in a step: the largest power of two that divides a group, at most a line."""
    return min(group_size & -group_size, gpu_target().kernels.groupwise.row_bytes * 8 // bits)


def _fits(call: Call) -> bool:
    """Whether the kernel supports a call: few rows of 16-bit floats, groups along the depth that are whole steps."""
    *lead, depth = call.x.shape
    is_along_depth = call.group_dim % 2 == 1
    is_few = 0 < math.prod(lead) <= gpu_target().kernels.groupwise.max_rows
    is_whole = _step_depth(call.group_size, call.num_bits) * call.num_bits // 8 >= MIN_DOT_SIDE
    return is_half(call.x) and is_along_depth and is_few and is_whole and 0 not in (depth, call.w.shape[0])


@dataclass(frozen=True)
class _Blocks:
    """The blocks of a program: rows of x, columns of the result, the depth of a step, and the stages of its loads."""

    rows: int
    columns: int
    depth: int
    stages: int

    @staticmethod
    def of(rows: int, columns: int, depth: int, bits: int) -> _Blocks:
        """The blocks for the sizes of a product and the depth of a step: every SM has a program where that can be.

        The stages keep as many bytes in flight as DRAM delivers in the time of a load, if shared memory holds them.
        """
        target = gpu_target()
        limits, block = target.kernels.groupwise, max(MIN_DOT_SIDE, power_of_two(rows))
        width = next((n for n in limits.columns if cdiv(columns, n) >= target.sms), limits.columns[-1])
        weight_bytes = width * depth * bits // 8
        programs_per_sm = cdiv(cdiv(columns, width), target.sms)
        needed = min(cdiv(limits.bytes_in_flight, weight_bytes * programs_per_sm) + 1, limits.max_stages)
        fitting = target.usable_shared_bytes // (weight_bytes + 2 * block * depth)
        return _Blocks(block, width, depth, max(min(needed, fitting), 1))


class _GroupwiseProduct:
    """The kernel of one call."""

    def __init__(self, instance: TemplateInstance) -> None:
        self.instance, self.tensors = instance, instance.tensors
        *lead, depth = (size.static or 0 for size in self.tensors["x"].shape)
        self.rows, self.columns, self.depth = math.prod(lead), self.tensors["w"].shape[0].static or 0, depth
        self.bits, self.group_size = (int(instance.attributes[name]) for name in ("num_bits", "group_size"))
        self.blocks = _Blocks.of(self.rows, self.columns, _step_depth(self.group_size, self.bits), self.bits)
        self.is_unsigned = "w" in instance.unsigned
        self.row_mask = "" if self.rows == self.blocks.rows else f"rows < {self.rows}"
        self.column_mask = "" if self.columns % self.blocks.columns == 0 else f"columns < {self.columns}"

    def source(self) -> Source:
        """The source of the kernel."""
        kernel, blocks = self.instance.kernel, self.blocks
        body = (
            f"columns = {program_id(kernel)} * {blocks.columns} + tl.arange(0, {blocks.columns})[:, None]",
            f"rows = tl.arange(0, {blocks.rows})",
            f"at = tl.arange(0, {blocks.depth})[None, :]",
            f"packed_at = tl.arange(0, {blocks.depth * self.bits // 8})[None, :]",
            f"sums = tl.full(({blocks.columns}, {blocks.rows}), 0.0, tl.float32)",
            f"for start in range(0, {self.depth}, {blocks.depth}):",
            *nested(self._step()),
            *([f"sums += {self._of_columns('b', 'columns')}"] if "b" in self.tensors else []),
            self._store(),
        )
        programs, warps = TileCount.of(cdiv(self.columns, blocks.columns)), gpu_target().kernels.groupwise.warps
        return Source(
            kernel.name, tuple(kernel.parameters), programs, body, warps, blocks.stages,
            origins=origins([kernel.func]), preamble=preamble(()), has_dot=True,
        )  # fmt: skip

    def _step(self) -> list[str]:
        """The lines of a step of the depth."""
        row_mask = f"rows[:, None] < {self.rows}" if self.row_mask else ""
        at = "start" if self.bits == 8 else "start // 2"
        packed = f"columns * {self.depth * self.bits // 8} + ({at} + packed_at)"
        group = f"columns * {self.depth // self.group_size} + start // {self.group_size}"
        numbers = f"packed{'.to(tl.uint8, bitcast=True)' if self.is_unsigned else ''}.to(tl.int32)"
        lines = [
            f"x = {self._load('x', f'rows[:, None] * {self.depth} + (start + at)', row_mask)}",
            f"packed = {self._load('w', packed, self.column_mask)}",
            f"numbers = {numbers}",
            f"scale = {self._of_columns('w_scale', group)}",
            *([f"zero = {self._of_columns('w_zero', group)}"] if "w_zero" in self.tensors else []),
        ]
        if self.bits == 8:
            return [*lines, self._addition("numbers", "x")]
        low = "(numbers & 15)" if self.is_unsigned else "(((numbers & 15) ^ 8) - 8)"
        split = f"even, odd = tl.split(tl.reshape(x, ({self.blocks.rows}, {self.blocks.depth // 2}, 2)))"
        return [*lines, split, self._addition("(numbers >> 4)", "even"), self._addition(low, "odd")]

    def _addition(self, numbers: str, x: str) -> str:
        """The line that adds the product of dequantized numbers with `x` to the sums."""
        attributes = self.instance.attributes
        offset = zero_point(self.is_unsigned, self.bits, bool(attributes["symmetric"]))
        shifted = f"({numbers} - {offset})" if offset else numbers
        weight = f"{shifted}.to(tl.float32) * scale{' + zero' if 'w_zero' in self.tensors else ''}"
        return f"sums = tl.dot(({weight}).to(tl.{TYPES[self.tensors['x'].element]}), {x}.T, sums)"

    def _load(self, name: str, offsets: str, mask: str) -> str:
        """The text that loads elements of a tensor at offsets; 0 where masked."""
        return f"tl.load({self.tensors[name].name} + {offsets}{f', {mask}, 0' if mask else ''})"

    def _of_columns(self, name: str, offsets: str) -> str:
        """The text that loads an element for each column as f32."""
        return f"{self._load(name, offsets, self.column_mask)}.to(tl.float32)"

    def _store(self) -> str:
        """The line that stores the sums."""
        out, mask = self.tensors["out"], " & ".join(f"({m})" for m in (self.row_mask, self.column_mask) if m)
        value = f"sums.to(tl.{TYPES[out.element]}){f', {mask}' if mask else ''}"
        return f"tl.store({out.name} + rows * {self.columns} + columns, {value})"


KERNEL = TemplateKernel("", ("out",), lambda instance: _GroupwiseProduct(instance).source())
register_template("fused_linear_with_groupwise_quantized_weight", Template(_fits, (KERNEL,)))
