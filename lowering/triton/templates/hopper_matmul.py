"""Products on Hopper, in Gluon: one warp reads operands, groups of four have 64 rows of a tile each.

Groups need not be a power of two: 192 x 256 tiles of 8192 x 768 are one round of 132 processors, of 128 x 256 two,
from which long depths gain. Nor need columns: of 192 a group has a sum of 128 and one of 64, of 160 one of 128 and
one of 32. Or two groups take turns, each with a tile of its own: while one multiplies, the other finishes its tile.
Lines that `contract` writes finish sums, some columns at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from oneflow.lowering.kernels.nodes import Node, Use
from oneflow.lowering.targets.choice import gpu_target
from oneflow.lowering.triton.codegen.descriptors import Descriptor
from oneflow.lowering.triton.codegen.emission import origins, tile_count, write_tile_order
from oneflow.lowering.triton.codegen.kernel import TYPES, bytes_of
from oneflow.lowering.triton.codegen.matmul import OPERAND_AXES, TILE_AXES, Emission
from oneflow.lowering.triton.codegen.prelude import commented
from oneflow.lowering.triton.codegen.writer import Value, Writer
from oneflow.lowering.triton.cost.matmul_configurations import PART
from oneflow.lowering.triton.names import identifier
from oneflow.lowering.triton.source import GLUON, Source, TensorDescriptor
from oneflow.lowering.triton.templates.gluon import BARRIERS, GROUP, IMPORTS, MARK, defined, side_by_side

#: Registers of a thread in one of so many groups and on average.
REGISTERS = {1: (240, 240), 2: (240, 168), 3: (160, 128)}
#: The most columns of a sum, for which threads have the registers, and of which there are powers of two.
MOST = 128
#: Operations on single elements from which on wide parts of a tile are worth the stage that their rooms take: a GELU
#: after 8192 x 3072 x 768 is 61.1 us in place of 63.0, nothing after it 57.5 in place of 55.2.
HEAVY = 12

HEAD = f"""import triton
{IMPORTS}from triton.experimental.gluon import language as tl
from triton.language.extra.cuda import libdevice
"""

PUT = """

@gluon.jit
def put(block, row, column, room, value):
    # Writes a block of the result, which is on its way when this returns; the one before it had another room.
    tma.store_wait(1)
    room.store(value)
    fence_async_shared()
    store_block(block, [row, column], room)
"""


@dataclass
class HopperEmission(Emission):
    """One source in Gluon; `config` has its tile and stages."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._share_out()
        self.sums = [f"acc{n}" for n in range(len(self.columns))]
        self.firsts = [sum(self.columns[:n]) for n in range(len(self.columns))]
        nodes = self.contraction.structure.nodes
        self.results = [
            (n, u) for n in nodes for i in range(len(n.results)) for u in self.contraction.destinations(n, i)
        ]
        self.rooms = self._rooms()
        self.config = replace(self.config, stages=min(self.config.stages, self._most_stages()))
        self.whole = self.tile
        self.operands = self._operands()
        self.written: dict[str, Descriptor] = {}
        self.turns: dict[tuple[str, int], int] = {}

    def _share_out(self) -> None:
        """Which rows of a tile each group has, the columns of its sums, and of the parts that are written."""
        own = self.config.turns
        self.beside = 1 if own else self.config.rows // GROUP
        self.groups, self.rows = (2, self.config.rows) if own else (self.beside, GROUP)
        is_heavy = self.contraction.problem.operations >= HEAVY
        self.columns, self.part = _sums(self.config.columns), PART if is_heavy else PART * GROUP // self.rows
        self.parts = [min(self.part, c) for c in self.columns for _ in range(max(c // self.part, 1))]
        self.registers, self.most = REGISTERS[self.groups], gpu_target().sms

    def _rooms(self) -> dict[tuple[str, int], int]:
        """How many blocks of an element and so many columns a group can be writing, none where the one before was."""
        elements = [self.kernel.tensor(use.value).element for _, use in self.results]
        return {(e, w): min(elements.count(e) * self.parts.count(w), 2) for e in elements for w in self.parts}

    def _most_stages(self) -> int:
        """How many stages of blocks have room beside the blocks that are written."""
        rooms = self.groups * self.rows * sum(count * width * bytes_of(e) for (e, width), count in self.rooms.items())
        target, stage = gpu_target(), self.config.stage(self.contraction.problem)
        return (target.block_shared_bytes - target.reserved_shared_bytes - rooms) // stage

    def _operands(self) -> dict[str, Descriptor | None]:
        """The descriptor of blocks of the first operand, and those of the second for each sum."""
        (one, rows), (two, columns) = zip(self.product.inputs, OPERAND_AXES, strict=True)
        self._look_at_part(0, self.columns[0])
        found = {"left": self._block(self.product, one, rows)}
        for number, (first, count) in enumerate(zip(self.firsts, self.columns, strict=True)):
            self._look_at_part(first, count)
            found[f"right{number}"] = self._block(self.product, two, columns)
        return found

    def _look_at_part(self, first: int, columns: int) -> None:
        """Goes on with the part of a tile that is a group's rows and some columns from a first one on."""
        row = f" + GROUP * {self.rows}" if self.beside > 1 else ""
        self._select_tile(self.rows, columns, row, f" + {first}")

    def _block(self, node: Node, use: Use, names: Sequence[str]) -> Descriptor | None:
        """The descriptor of a tensor's blocks along two axes, None where there is none."""
        found = self._descriptor(node, use, ["b", *names])
        return found if found is not None and len(found.dimensions) == 2 else None

    @property
    def is_possible(self) -> bool:
        """Whether operands are read and results written by descriptors, these row by row."""
        self._look_at_part(0, min(self.parts))
        results = [self._block(n, u, "mn") for n, u in self.results]
        rows = all(d is not None and order(d) == ["m", "n"] for d in results)
        return None not in self.operands.values() and rows and self.config.stages > 1 and not self.kernel.checks

    def emit(self) -> Source:
        """The source."""
        lines = self._multiply()
        names = [name for name, _ in self.kernel.parameters]
        pointers = [name for name, kind in self.kernel.parameters if kind.startswith("*")]
        given = [*names, *(f"{n}_block" for n in self.written), *(_room(*kind) for kind in self.rooms)]
        shared = [*self.operands, "full", "empty", *(["turns"] if self.config.turns else [])]
        hints = [f"{name} = tl.multiple_of({name}, 16)" for name in pointers]
        parts = [
            _function("read", [*self._blocks(), *shared], self._read_lines()),
            _function("sums", [*given, *shared, "GROUP: tl.constexpr"], [*hints, *lines]),
            _function(identifier(self.kernel.name), names, self._start(given, shared)),
        ]
        return self._source("".join(parts))

    def _descriptors(self) -> list[TensorDescriptor]:
        """The statements that make the descriptors of operands and results."""
        named = {**{n: d for n, d in self.operands.items() if d is not None}, **self.written}
        return [d.record(f"{name}_block", f"tl.{_layout(d)}") for name, d in named.items()]

    def _source(self, functions: str) -> Source:
        comments = commented(origins([n.op for n in self.contraction.structure.nodes]))
        text = f"{comments}{HEAD}{defined(functions)}{BARRIERS}{PUT if self.written else ''}{functions}"
        kernel, count = self.kernel, self._count()
        grid, warps = str(min(count, self.most)), self.config.warps // self.groups
        return Source(
            kernel.name, text, tuple(kernel.parameters), grid, warps, registers=self.registers[1], language=GLUON,
            descriptors=tuple(self._descriptors()),
        )  # fmt: skip

    def _count(self) -> int:
        """The number of tiles."""
        return math.prod(int(tile_count(axis)) for axis in self.whole.axes if axis.name in "bmn")

    def _loop(self, lines: Sequence[str], count: int = 0) -> list[str]:
        """Lines for each tile of a program, in which steps are counted."""
        header = f"for tile in range(tl.program_id(0), {self._count()}, tl.num_programs(0)):"
        return [f"count = {count}", header, *_indented(lines)]

    def _own_loop(self, lines: Sequence[str]) -> list[str]:
        """Lines for each tile of a group: those of a program, or every other of them."""
        if not self.config.turns:
            return self._loop(lines)
        first, every = "tl.program_id(0) + GROUP * tl.num_programs(0)", "2 * tl.num_programs(0)"
        header = f"for tile in range({first}, {self._count()}, {every}):"
        return [f"count = GROUP * {self._steps}", header, *_indented([*lines, f"count += {self._steps}"])]

    @property
    def _steps(self) -> int:
        """The steps of a tile."""
        return -(-(self._axis("ka").size.static or 1) // self.config.depth)

    def _place_lines(self) -> list[str]:
        """Which tile a program computes."""
        writer, self.writer, self.tile = self.writer, Writer(), self.whole
        write_tile_order(self.writer, "tile", *(tile_count(self._axis(name)) for name in "mn"))
        lines, self.writer = self.writer.scopes[0].lines, writer
        return lines

    def _read_lines(self) -> list[str]:
        """What one warp does: it reads the blocks of each step of each tile, but for those on their way already."""
        stages = self.config.stages
        step = [
            f"slot = count % {stages}",
            f"mbarrier.wait(empty.index(slot), ((count // {stages}) & 1) ^ 1)",
            *self._read_step(),
            "count += 1",
        ]
        steps = f"for k_at in range(begin, {self._axis('ka').size}, {self.config.depth}):"
        begin = f"begin = tl.where(tile == tl.program_id(0), {self._ahead * self.config.depth}, 0)"
        return self._loop([*self._place_lines(), begin, steps, *_indented(step)], self._ahead)

    @property
    def _ahead(self) -> int:
        """How many steps of the first tile are read before groups begin, while these get ready."""
        return min(self.config.stages, self._steps)

    def _ahead_lines(self) -> list[str]:
        """The reads of the first steps."""
        reads = [f"for slot in gl.static_range({self._ahead}):", f"    k_at = slot * {self.config.depth}"]
        return ["tile = tl.program_id(0)", *self._place_lines(), *reads, *_indented(self._read_step())]

    def _read_step(self) -> list[str]:
        """What reads the blocks of a step."""
        size = self.config.stage(self.contraction.problem)
        left, *rights = ((name, d.coordinates) for name, d in self.operands.items() if d is not None)
        copies = [("left_block", left[1].replace("GROUP", str(g)), f"left.index(slot * {self.beside} + {g})")
                  for g in range(self.beside)]  # fmt: skip
        copies += [(f"{name}_block", place, f"{name}.index(slot)") for name, place in rights]
        return [
            "bar = full.index(slot)",
            f"mbarrier.expect(bar, {size})",
            *(f"load_block({block}, {place}, bar, {room})" for block, place, room in copies),
        ]

    def _multiply(self) -> list[str]:
        """What a group does: the sums of its rows of each tile, and what follows."""
        finish = self._finish_lines()
        steps = f"for k_at in range(0, {self._axis('ka').size}, {self.config.depth}):"
        lines = [
            *self._place_lines(),
            *(f"{name} = tl.zeros(({self.rows}, {columns}), tl.float32, {self._threads(columns)})"
              for name, columns in zip(self.sums, self.columns, strict=True)),
            *self._in_turn([steps, *_indented(self._step_lines())]),
            *finish,
        ]  # fmt: skip
        return [
            *self.writer.scopes[0].lines,
            *self._own_loop(lines),
            *(["tma.store_wait(0)"] if self.written else []),
        ]

    def _in_turn(self, steps: Sequence[str]) -> list[str]:
        """The steps of a tile; groups that take turns begin theirs when the other has begun all of its own.

        Before that a slot may be two rounds behind, which its barrier could not tell from one that is ready.
        """
        if not self.config.turns:
            return list(steps)
        begin = f"mbarrier.wait(turns.index(GROUP), (count // {2 * self._steps} & 1) ^ (1 - GROUP))"
        return [begin, *steps, "mbarrier.arrive(turns.index(1 - GROUP))"]

    def _threads(self, columns: int) -> str:
        """How threads of a group have a sum of so many columns."""
        return f"tl.NVMMADistributedLayout([3, 0], [4, 1], [16, {columns}, 16])"

    def _finish_lines(self) -> list[str]:
        """What follows the sums of a tile, whose elements threads have each in another order."""
        sums = ", ".join(self.sums)
        lines = [
            f"{sums} = warpgroup_mma_wait(0, deps=({sums},))",
            f"mbarrier.arrive(empty.index((count - 1) % {self.config.stages}))",
            "tma.store_wait(0)",
        ]
        for about in zip(self.sums, self.firsts, self.columns, strict=True):
            self.writer.open(TILE_AXES)
            self._finish_sum(*about)
            lines += self.writer.scopes.pop().lines
        return lines

    def _await_lines(self) -> list[str]:
        """The blocks of a step are there."""
        stages = self.config.stages
        return [f"slot = count % {stages}", f"mbarrier.wait(full.index(slot), (count // {stages}) & 1)"]

    def _step_lines(self) -> list[str]:
        """A step: blocks of the one before are given back when its products are done."""
        stages, sums = self.config.stages, ", ".join(self.sums)
        left, *rights = ((name, d) for name, d in self.operands.items() if d is not None)
        blocks = [f"{name}.index(slot){turned(d, OPERAND_AXES[1])}" for name, d in rights]
        products = [f"{name} = warpgroup_mma(a, {block}, {name}, use_acc=k_at > 0, is_async=True)"
                    for name, block in zip(self.sums, blocks, strict=True)]  # fmt: skip
        rows = " + GROUP" if self.beside > 1 else ""
        return [
            *self._await_lines(),
            f"a = left.index(slot * {self.beside}{rows}){turned(left[1], OPERAND_AXES[0])}",
            *products,
            f"{sums} = warpgroup_mma_wait({len(self.sums)}, deps=({sums},))",
            f"mbarrier.arrive(empty.index(tl.maximum(count - 1, 0) % {stages}), pred=k_at > 0)",
            "count += 1",
        ]

    def _finish_sum(self, name: str, first: int, columns: int) -> None:
        """What follows a sum of a group, one part of columns after the other."""
        width = min(self.part, columns)
        for number, part in enumerate(self._split_columns(name, self.rows, columns, columns // width)):
            self._look_at_part(first + number * width, width)
            for axis in "bmn":
                self.tile.place(self._axis(axis))
            self._epilogue_slice(part)

    #: Blocks that the sums are combined with are read by pointers.
    has_tma_epilogue = False

    def _store(self, node: Node, use: Use, value: Value) -> None:
        """Writes a part of a result, from the room that its group has not used for the part before."""
        tensor, found = self.kernel.tensor(use.value), self._block(node, use, "mn")
        assert found is not None
        kind = tensor.element, found.dimensions[-1].axis.block
        name, count = f"{tensor.name}_{kind[1]}", self.rooms[kind]
        self.written[name] = found
        place = found.coordinates.removeprefix("[").removesuffix("]")
        turn = self.turns[kind] = (self.turns.get(kind, -1) + 1) % count
        self.writer.line(f"put({name}_block, {place}, {_room(*kind)}.index(GROUP * {count} + {turn}), {value.name})")

    def _blocks(self) -> list[str]:
        """The names of the operands' descriptors."""
        return [f"{name}_block" for name in self.operands]

    def _start(self, given: Sequence[str], shared: Sequence[str]) -> list[str]:
        """Descriptors, memory, every group, and the warp that reads."""
        stages, operands = self.config.stages, {n: d for n, d in self.operands.items() if d is not None}
        rooms = {(d.tensor.element, d.dimensions[-1].axis.block): d for d in self.written.values()}
        memory = [*((n, d, stages * (self.beside if n == "left" else 1)) for n, d in operands.items()),
                  *((_room(*k), d, self.rooms[k] * self.groups) for k, d in rooms.items())]  # fmt: skip
        groups = [f"(sums, ({', '.join([*given, *shared, str(g)])}))" for g in range(self.groups)]
        reader = f"(read, ({', '.join([*self._blocks(), *shared])}))"
        return [
            *map(str, self._descriptors()),
            *(_allocated(*about) for about in memory),
            f"full, empty = barriers({stages}, 1), barriers({stages}, {self.beside})",
            *(["turns = barriers(2, 1)"] if self.config.turns else []),
            "fence_async_shared()",
            *self._ahead_lines(),
            *side_by_side(groups, reader, self.registers[0]),
        ]


def _sums(columns: int) -> list[int]:
    """The columns of the sums of a tile: 160 are 128 and 32."""
    first = min(MOST, 1 << columns.bit_length() - 1)
    return [first, *(_sums(columns - first) if columns > first else [])]


def _room(element: str, columns: int) -> str:
    """The name of memory that blocks of a result are written from."""
    return f"room_{element}_{columns}"


def order(found: Descriptor) -> list[str]:
    """The axes of a block as it lies in memory."""
    return [d.axis.name for d in found.dimensions]


def turned(found: Descriptor, sides: Sequence[str]) -> str:
    """What makes a block as it lies in memory one that is multiplied."""
    return "" if order(found) == list(sides) else ".permute((1, 0))"


def _layout(found: Descriptor) -> str:
    """How a block lies in shared memory: rows of 128 bytes, swizzled, or of what it has."""
    width = bytes_of(found.tensor.element)
    swizzle = min(found.dimensions[-1].axis.block * width, 128)
    return f"NVMMASharedLayout({swizzle}, {8 * width}, 2)"


def _shape(found: Descriptor) -> list[str]:
    return [str(d.axis.block) for d in found.dimensions]


def _allocated(name: str, found: Descriptor, count: int) -> str:
    """Room for so many blocks."""
    shape = ", ".join([str(count), *_shape(found)])
    return f"{name} = tl.allocate_shared_memory(tl.{TYPES[found.tensor.element]}, [{shape}], tl.{_layout(found)})"


def _function(name: str, parameters: Sequence[str], lines: Sequence[str]) -> str:
    return f"\n\n{MARK}def {name}({', '.join(parameters)}):\n" + "".join(f"{x}\n" for x in _indented(lines))


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]
