"""Gradients of attention on Hopper, in Gluon: one warp reads blocks, groups of four have 64 keys, or queries, each.

What kernels do is told in `gradient_kernels`; here are their sizes, and which calls have them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from oneflow.lowering.targets.choice import gpu_target
from oneflow.lowering.triton.codegen.kernel import TYPES
from oneflow.lowering.triton.source import Source, TensorDescriptor
from oneflow.lowering.triton.templates.attention_blocks import LOG2E, Shape
from oneflow.lowering.triton.templates.gluon import GROUP, Turned, described, padded, side_by_side, widest
from oneflow.lowering.triton.templates.hopper_attention_gradient_source import HEAD, KEYS, QUERIES
from oneflow.lowering.triton.templates.outline_templates import Filled

#: Groups of warps, registers of a thread in a group and on average.
GROUPS, REGISTERS, AVERAGE = 2, 240, 168
#: The text of the layout of a product, by its columns.
LAYOUT = "gl.NVMMADistributedLayout([3, 0], [4, 1], [16, {}, 16])"


@dataclass(frozen=True)
class Side:
    """One of the kernels: whose rows groups have, what passes these, what comes of it, and the kernel's functions.

    `ways` are by the width of heads: rows of a block that passes, how many are underway, how many blocks of a group's
    own rows are, and whether these rows stay in registers.
    """

    own: tuple[str, str]
    passing: tuple[str, str]
    results: tuple[str, ...]
    functions: str
    ways: dict[int, tuple[int, int, int, bool]]


KEY_WAYS = {64: (64, 3, 2, True), 128: (64, 3, 1, False)}
QUERY_WAYS = {64: (128, 3, 2, False), 128: (64, 3, 2, False)}
KEY_SIDE = Side(("key", "value"), ("query", "dy"), ("dkey", "dvalue"), KEYS, KEY_WAYS)
QUERY_SIDE = Side(("query", "dy"), ("key", "value"), ("dquery",), QUERIES, QUERY_WAYS)
#: Numbers of queries: they pass as keys' blocks of these do, and each group has those of its own.
NUMBERS = ("logsumexp", "delta")
#: How many of them the bytes have that a copy by a descriptor begins at multiples of.
ALIGNED = 4


def gradients(filled: Filled, shape: Shape, side: Side) -> Source | None:
    """The kernel of a call; None where the plain one has to do, or fills more processors: it has smaller blocks."""
    width = widest(filled, shape)
    if width not in side.ways:
        return None
    found = _Gradients(filled, shape, side, width)
    lost = found.by_key and found.causal and found.size > found.length  # keys that nothing sees
    full = found.by_key and not (found.copied or found.held)  # the numbers of queries take registers
    few = found.tiles < 2 * gpu_target().sms or min(found.length, found.size) < GROUPS * GROUP
    return None if lost or full or few else found.source()


class _Gradients(Turned):
    """The kernel of one call, all sizes known."""

    def __init__(self, filled: Filled, shape: Shape, side: Side, width: int) -> None:
        self.side, self.by_key = side, side is KEY_SIDE
        self.step, self.stages, self.own, self.held = side.ways[width]
        heads, rows = (shape.groups, shape.size) if self.by_key else (shape.heads, shape.length)
        super().__init__(filled, shape, heads, rows.static or 0, GROUPS * GROUP)

    @property
    def copied(self) -> bool:
        """Whether the warp that reads copies the numbers of queries: a head's begin where a copy can."""
        return self.by_key and self.length % ALIGNED == 0

    def source(self) -> Source:
        """The source."""
        constants = "".join(f"{name} = gl.constexpr({value})\n" for name, value in self._constants())
        return self.written(
            f"\n\n{constants}{HEAD}{self.side.functions}", [*self._tensors(), *self._start()], AVERAGE
        )

    def _constants(self) -> Iterator[tuple[str, object]]:
        """What the functions of a kernel know of a call."""
        share, scale = self.shape.share, float(self.filled.attributes["scale"])
        passing = self.length if self.by_key else self.size
        yield from {
            "BY_KEY": self.by_key, "COPIED": self.copied, "CAUSAL": self.causal, "PAIRS": self.paired,
            "HELD": self.held,
            "MASKS": self.causal or passing % self.step != 0, "ALTERNATE": self.step > GROUP and not self.causal,
            "GROUPS": GROUPS, "ROWS": GROUP, "OWN": self.own, "STEP": self.step, "STAGES": self.stages,
            "LENGTH": self.length, "SIZE": self.size, "BLOCKS": self.blocks, "UNITS": self.units, "TURNS": self.turns,
            "HEADS": self.heads, "SHARE": share, "WALKS": share if self.by_key else 1,
            "SCALE": scale * LOG2E, "WHOLE": scale,
        }.items()  # fmt: skip
        yield from self._layouts()
        for side, name in zip(("LEFT", "RIGHT"), self.side.results, strict=False):
            yield f"{side}_SUMS", self.filled.tensors[name].shape[3] if f"{name}_sums" in self.filled.tensors else 0

    def _layouts(self) -> Iterator[tuple[str, object]]:
        """Widths, and how blocks of products are shared out among threads."""
        width, out = padded(self.shape.width), padded(self.shape.out)
        yield from {"WIDTH": width, "OUT": out, "ROW_BYTES": 2 * (width + out)}.items()
        yield from (("DTYPE", f"gl.{TYPES[self.filled.tensors['query'].element]}"),)
        for name, columns in (("SCORES", self.step), ("LEFT", width), ("RIGHT", out)):
            yield name, LAYOUT.format(columns)
        for name, columns in (("WEIGHTS", out), ("SLOPES", width)):
            yield name, f"gl.DotOperandLayout(0, {LAYOUT.format(columns)}, 2)"

    def _tensors(self) -> Iterator[str | TensorDescriptor]:
        """Descriptors of blocks of tensors, and room for those that are underway."""
        for name in self.side.own:
            yield from described(self.filled.tensors[name], name, GROUP, self.own * GROUPS)
        for name in self.side.passing:
            yield from described(self.filled.tensors[name], name, self.step, self.stages)
        for name in self.side.results:
            yield from described(self.filled.tensors[name], name, GROUP, GROUPS if self.by_key else 0)
        for name in NUMBERS if self.copied else ():
            yield from self._numbers(name)

    def _numbers(self, name: str) -> list[str]:
        """A descriptor of blocks of numbers, of every head after the other, and room for those underway."""
        tensor = self.filled.tensors[name]
        return [
            f"{name}_layout: gl.constexpr = gl.NVMMASharedLayout(0, 32, 1)",
            f"all_{name} = tma.make_tensor_descriptor(",
            f"    {tensor.pointer}, [{tensor.count}], [1], [{self.step}], {name}_layout",
            ")",
            f"{name} = gl.allocate_shared_memory(gl.float32, [{self.stages}, {self.step}], {name}_layout)",
        ]

    def _start(self) -> list[str]:
        """Barriers, and every group and the warp that reads."""
        tensors, results = self.filled.tensors, self.side.results
        sums = [tensors[f"{name}_sums"].name if f"{name}_sums" in tensors else "0" for name in results]
        rooms = results if self.by_key else ()
        blocks = [*self.side.own, *self.side.passing]
        numbers = list(NUMBERS) if self.copied else [tensors[name].name for name in NUMBERS]
        copied = [f"all_{name}" if self.copied else "0" for name in NUMBERS]
        read = [*(f"all_{name}" for name in blocks), *copied]
        return [
            f"own_full, own_empty = barriers({self.own}, 1), barriers({self.own}, {GROUPS})",
            f"full, empty = barriers({self.stages}, 1), barriers({self.stages}, {GROUPS})",
            f"bars = own_full, own_empty, full, empty, barriers({GROUPS}, 1)",
            "fence_async_shared()",
            f"memory = {', '.join(blocks)}",
            f"numbers = {', '.join(numbers)}",
            f"inputs = {', '.join(read)}",
            f"outputs = {', '.join([*(f'all_{name}' for name in results), *sums, *rooms])}",
            *side_by_side(
                [f"(work, (outputs, memory, numbers, bars, {group}))" for group in range(GROUPS)],
                "(read, (inputs, memory, numbers, bars))", REGISTERS,
            ),
        ]  # fmt: skip
