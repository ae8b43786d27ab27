"""Warp-specialized backward kernels of attention for Hopper: their configurations, and the calls that have them.

A producer warp loads by TMA; each consumer warp group has 64 keys, or 64 queries. The source of the kernels is in
`hopper_attention_gradient_source`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from oneflow.lowering.targets.choice import gpu_target
from oneflow.lowering.targets.gpu_parameters import WarpSpecializedAttentionGradient
from oneflow.lowering.triton.codegen.kernel import TYPES
from oneflow.lowering.triton.source import Source, TensorDescriptor
from oneflow.lowering.triton.templates.attention_blocks import LOG2E, AttentionShape
from oneflow.lowering.triton.templates.gluon import (
    WARP_GROUP_ROWS,
    PersistentKernel,
    block_width,
    descriptor_lines,
    padded_width,
    warp_specialize,
)
from oneflow.lowering.triton.templates.hopper_attention_gradient_source import HEAD, KEYS, QUERIES
from oneflow.lowering.triton.templates.outline_templates import TemplateInstance

#: The layout of a product's accumulators, by its columns.
ACCUMULATOR_LAYOUT = "gl.NVMMADistributedLayout([3, 0], [4, 1], [16, {}, 16])"


@dataclass(frozen=True)
class Side:
    """One of the two kernels.

    Attributes:
        stationary: the operands whose rows a consumer warp group keeps.
        streamed: the operands whose blocks pass these rows.
        results: the gradients.
        functions: the text of the kernel's functions.
    """

    stationary: tuple[str, str]
    streamed: tuple[str, str]
    results: tuple[str, ...]
    functions: str


KEY_SIDE = Side(("key", "value"), ("query", "dy"), ("dkey", "dvalue"), KEYS)
QUERY_SIDE = Side(("query", "dy"), ("key", "value"), ("dquery",), QUERIES)
#: The statistics of each query, one number each.
STATISTICS = ("logsumexp", "delta")
#: The numbers in 16 bytes, the alignment of a TMA copy.
ALIGNMENT = 4


def gradients(instance: TemplateInstance, shape: AttentionShape, side: Side) -> Source | None:
    """The kernel of a call; None where only the plain kernel fits, or keeps more SMs busy by its smaller blocks."""
    width = block_width(instance, shape)
    if width not in _configurations(side):
        return None
    kernel = _Gradients(instance, shape, side, width)
    has_unused_keys = kernel.by_key and kernel.causal and kernel.key_length > kernel.query_length
    # Statistics that are not copied by TMA take registers.
    spills = kernel.by_key and not (kernel.copies_statistics or kernel.config.in_registers)
    shortest = min(kernel.query_length, kernel.key_length)
    is_small = kernel.tiles < 2 * gpu_target().sms or shortest < kernel.groups * WARP_GROUP_ROWS
    return None if has_unused_keys or spills or is_small else kernel.source()


def _configurations(side: Side) -> Mapping[int, WarpSpecializedAttentionGradient]:
    """The configurations of one of the two kernels, by the width of a block of heads."""
    parameters = gpu_target().kernels.attention
    return parameters.key_gradients if side is KEY_SIDE else parameters.query_gradients


class _Gradients(PersistentKernel):
    """A backward kernel of one call, whose sizes are all known."""

    def __init__(self, instance: TemplateInstance, shape: AttentionShape, side: Side, width: int) -> None:
        self.side, self.by_key = side, side is KEY_SIDE
        self.parameters, self.config = gpu_target().kernels.attention, _configurations(side)[width]
        self.groups = self.parameters.gradient_groups
        heads, rows = (shape.key_heads, shape.key_length) if self.by_key else (shape.heads, shape.query_length)
        super().__init__(instance, shape, heads, rows.static or 0, self.groups * WARP_GROUP_ROWS)

    @property
    def copies_statistics(self) -> bool:
        """Whether the producer copies the statistics of queries by TMA: those of each head are aligned."""
        return self.by_key and self.query_length % ALIGNMENT == 0

    def source(self) -> Source:
        """The source."""
        constants = "".join(f"{name} = gl.constexpr({value})\n" for name, value in self._constants())
        functions = f"\n\n{constants}{HEAD}{self.side.functions}"
        registers = self.parameters.gradient_average_registers
        return self.build_source(functions, [*self._tensors(), *self._start()], registers)

    def _constants(self) -> Iterator[tuple[str, object]]:
        """The names and values of the constants that the kernel's functions use."""
        share, scale = self.shape.heads_per_key, float(self.instance.attributes["scale"])
        streamed, step = self.query_length if self.by_key else self.key_length, self.config.step
        yield from {
            "BY_KEY": self.by_key, "COPIED": self.copies_statistics, "CAUSAL": self.causal, "PAIRS": self.paired,
            "HELD": self.config.in_registers,
            "MASKS": self.causal or streamed % step != 0, "ALTERNATE": step > WARP_GROUP_ROWS and not self.causal,
            "GROUPS": self.groups, "ROWS": WARP_GROUP_ROWS, "OWN": self.config.stationary_buffers, "STEP": step,
            "STAGES": self.config.stages, "LENGTH": self.query_length, "SIZE": self.key_length,
            "BLOCKS": self.blocks, "UNITS": self.units, "TURNS": self.turns,
            "HEADS": self.heads, "SHARE": share, "WALKS": share if self.by_key else 1,
            "SCALE": scale * LOG2E, "WHOLE": scale,
        }.items()  # fmt: skip
        yield from self._layouts()
        tensors = self.instance.tensors
        for side, name in zip(("LEFT", "RIGHT"), self.side.results, strict=False):
            yield f"{side}_SUMS", tensors[name].shape[3] if f"{name}_sums" in tensors else 0

    def _layouts(self) -> Iterator[tuple[str, object]]:
        """The widths of blocks, and the layouts of accumulators and of operands in registers."""
        width, out = padded_width(self.shape.width), padded_width(self.shape.value_width)
        yield from {"WIDTH": width, "OUT": out, "ROW_BYTES": 2 * (width + out)}.items()
        yield from (("DTYPE", f"gl.{TYPES[self.instance.tensors['query'].element]}"),)
        for name, columns in (("SCORES", self.config.step), ("LEFT", width), ("RIGHT", out)):
            yield name, ACCUMULATOR_LAYOUT.format(columns)
        for name, columns in (("WEIGHTS", out), ("SLOPES", width)):
            yield name, f"gl.DotOperandLayout(0, {ACCUMULATOR_LAYOUT.format(columns)}, 2)"

    def _tensors(self) -> Iterator[str | TensorDescriptor]:
        """TMA descriptors of the tensors, and their shared-memory buffers."""
        tensors, config = self.instance.tensors, self.config
        for name in self.side.stationary:
            buffers = config.stationary_buffers * self.groups
            yield from descriptor_lines(tensors[name], name, WARP_GROUP_ROWS, buffers)
        for name in self.side.streamed:
            yield from descriptor_lines(tensors[name], name, config.step, config.stages)
        for name in self.side.results:
            yield from descriptor_lines(tensors[name], name, WARP_GROUP_ROWS, self.groups if self.by_key else 0)
        for name in STATISTICS if self.copies_statistics else ():
            yield from self._statistics(name)

    def _statistics(self, name: str) -> list[str]:
        """The TMA descriptor of a statistic, the heads one after the other, and its shared-memory buffers."""
        tensor, stages, step = self.instance.tensors[name], self.config.stages, self.config.step
        return [
            f"{name}_layout: gl.constexpr = gl.NVMMASharedLayout(0, 32, 1)",
            f"all_{name} = tma.make_tensor_descriptor(",
            f"    {tensor.pointer}, [{tensor.count}], [1], [{self.config.step}], {name}_layout",
            ")",
            f"{name} = gl.allocate_shared_memory(gl.float32, [{stages}, {step}], {name}_layout)",
        ]

    def _start(self) -> list[str]:
        """Allocates barriers, and starts the consumer warp groups and the producer warp."""
        tensors, results = self.instance.tensors, self.side.results
        sums = [tensors[f"{name}_sums"].name if f"{name}_sums" in tensors else "0" for name in results]
        result_buffers = results if self.by_key else ()
        blocks = [*self.side.stationary, *self.side.streamed]
        statistics = list(STATISTICS) if self.copies_statistics else [tensors[name].name for name in STATISTICS]
        copied = [f"all_{name}" if self.copies_statistics else "0" for name in STATISTICS]
        inputs = [*(f"all_{name}" for name in blocks), *copied]
        own, stages = self.config.stationary_buffers, self.config.stages
        return [
            f"own_full, own_empty = barriers({own}, 1), barriers({own}, {self.groups})",
            f"full, empty = barriers({stages}, 1), barriers({stages}, {self.groups})",
            f"bars = own_full, own_empty, full, empty, barriers({self.groups}, 1)",
            "fence_async_shared()",
            f"memory = {', '.join(blocks)}",
            f"numbers = {', '.join(statistics)}",
            f"inputs = {', '.join(inputs)}",
            f"outputs = {', '.join([*(f'all_{name}' for name in results), *sums, *result_buffers])}",
            *warp_specialize(
                [f"(work, (outputs, memory, numbers, bars, {group}))" for group in range(self.groups)],
                "(read, (inputs, memory, numbers, bars))", self.parameters.gradient_registers,
            ),
        ]  # fmt: skip
