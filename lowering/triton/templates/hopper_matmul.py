"""Warp-specialized matrix products for Hopper, in Gluon: a producer warp loads by TMA, consumer warp groups multiply.

The kernel is persistent. Cooperative consumer warp groups share a tile, 64 rows each; the count of groups may be no
power of two, so that tiles can have 192 rows. The columns of a tile may be no power of two either: a warp group then
has several accumulators, of 128 and 64 columns for 192, of 128 and 32 for 160. Ping-pong warp groups have a tile
each: while one group multiplies, the other group computes its epilogue. `codegen.matmul` writes the epilogue in
slices of columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from oneflow.lowering.kernels.nodes import Node, Use
from oneflow.lowering.targets.instructions import TMA, VECTOR_BYTES, WARP, WGMMA
from oneflow.lowering.targets.selection import gpu_target
from oneflow.lowering.triton.codegen.descriptors import Descriptor
from oneflow.lowering.triton.codegen.emission import origins, tile_count, write_tile_rasterization
from oneflow.lowering.triton.codegen.kernel import TYPES, bytes_of
from oneflow.lowering.triton.codegen.matmul import DEPTH_AXES, OPERAND_AXES, TILE_AXES, Contraction, MatmulEmitter
from oneflow.lowering.triton.codegen.prelude import definitions
from oneflow.lowering.triton.codegen.writer import Value, Writer
from oneflow.lowering.triton.cost.matmul_configurations import warp_specialized_config
from oneflow.lowering.triton.source import GLUON, Function, Source, TensorDescriptor, nested
from oneflow.lowering.triton.symbolic_sizes import TileCount
from oneflow.lowering.triton.templates.warp_specialization import (
    BARRIERS,
    IMPORTS,
    target_form,
    warp_specialize,
)

#: Threads of a warp along rows and columns.
WARP_SHAPE = (4, 8)

HEAD = f"""import triton
{IMPORTS}from triton.experimental.gluon import language as tl
from triton.language.extra.cuda import libdevice
"""

STORE_FUNCTION = Function(
    "store_tile",
    ("block", "row", "column", "staging", "value"),
    (
        "# Starts the TMA store of a block of the result; the store before it reads another buffer.",
        "tma.store_wait(1)",
        "staging.store(value)",
        "fence_async_shared()",
        "store_block(block, [row, column], staging)",
    ),
)


@dataclass
class HopperMatmulEmitter(MatmulEmitter):
    """Writes the kernel of a product in `config`: its Gluon source."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._partition_tile()
        self.accumulators = [f"acc{n}" for n in range(len(self.columns))]
        self.offsets = [sum(self.columns[:n]) for n in range(len(self.columns))]
        nodes = self.contraction.structure.nodes
        self.results = [
            (n, u) for n in nodes for i in range(len(n.results)) for u in self.contraction.destinations(n, i)
        ]
        self.buffers = self._buffers()
        self.config = replace(self.config, stages=min(self.config.stages, self._max_stages()))
        self.full_tile = self.tile
        self.operands = self._operands()
        self.result_descriptors: dict[str, Descriptor] = {}
        self.last_buffer: dict[tuple[str, int], int] = {}

    def _partition_tile(self) -> None:
        """Sets the rows of a consumer warp group, and the columns of its accumulators and of epilogue slices."""
        self.groups_per_tile = 1 if self.config.ping_pong else self.config.rows // WGMMA.rows
        self.groups = 2 if self.config.ping_pong else self.groups_per_tile
        self.rows = self.config.rows if self.config.ping_pong else WGMMA.rows
        target = gpu_target()
        is_heavy = self.contraction.problem.epilogue_operations >= target.model.heavy_epilogue
        tiles = target.model.tiles
        self.columns = _accumulator_columns(self.config.columns, tiles.max_accumulator_columns)
        self.slice_columns = tiles.epilogue_columns if is_heavy else tiles.epilogue_columns * WGMMA.rows // self.rows
        self.slices = [
            min(self.slice_columns, c) for c in self.columns for _ in range(max(c // self.slice_columns, 1))
        ]
        self.registers, self.max_programs = tiles.registers[self.groups], target.sms

    def _buffers(self) -> dict[tuple[str, int], int]:
        """The number of buffers of a warp group, by element type and columns of a slice: 2 for several slices."""
        elements = [self.kernel.tensor(use.value).element for _, use in self.results]
        return {(e, w): min(elements.count(e) * self.slices.count(w), 2) for e in elements for w in self.slices}

    def _max_stages(self) -> int:
        """The most pipeline stages that shared memory holds together with the epilogue buffers."""
        row_bytes = sum(count * width * bytes_of(e) for (e, width), count in self.buffers.items())
        buffers = self.groups * self.rows * row_bytes
        target, stage = gpu_target(), self.config.stage_bytes(self.contraction.problem)
        return (target.usable_shared_bytes - buffers) // stage

    def _operands(self) -> dict[str, Descriptor | None]:
        """The descriptors of the left operand, and of the right operand for each accumulator."""
        (left, rows), (right, columns) = zip(self.product.inputs, OPERAND_AXES, strict=True)
        self._select_part(0, self.columns[0])
        descriptors = {"left": self._block_descriptor(self.product, left, rows)}
        for index, (first, count) in enumerate(zip(self.offsets, self.columns, strict=True)):
            self._select_part(first, count)
            descriptors[f"right{index}"] = self._block_descriptor(self.product, right, columns)
        return descriptors

    def _present_operands(self) -> list[tuple[str, Descriptor]]:
        """The operands' blocks with their descriptors, by name."""
        return [(name, descriptor) for name, descriptor in self.operands.items() if descriptor is not None]

    def _select_part(self, first: int, columns: int) -> None:
        """Makes the current tile a warp group's rows, and `columns` columns from `first` on."""
        self._select_tile(self.rows, columns, self._group_offset("GROUP"), f" + {first}")

    def _group_offset(self, group: object) -> str:
        """The text that adds the first row of a warp group within its tile."""
        return f" + {group} * {self.rows}" if self.groups_per_tile > 1 else ""

    def _block_descriptor(self, node: Node, use: Use, names: Sequence[str]) -> Descriptor | None:
        """The TMA descriptor of a tensor's blocks along two axes; None where the tensor cannot have one."""
        descriptor = self._descriptor(node, use, ["b", *names])
        return descriptor if descriptor is not None and len(descriptor.dimensions) == 2 else None

    @property
    def is_possible(self) -> bool:
        """Whether TMA can read both operands and write all results, which have to be row-major."""
        self._select_part(0, min(self.slices))
        results = [self._block_descriptor(n, u, "mn") for n, u in self.results]
        rows = all(d is not None and axis_order(d) == ["m", "n"] for d in results)
        operands = all(d is not None and self._is_multiplied_as_stored(d) for d in self.operands.values())
        return operands and rows and self.config.stages > 1 and not self.kernel.checks

    def _is_multiplied_as_stored(self, descriptor: Descriptor) -> bool:
        """Whether tensor cores can read the blocks of an operand: blocks of f32 along the depth alone."""
        return self.contraction.problem.element_bytes == 2 or axis_order(descriptor)[-1] in DEPTH_AXES

    def emit(self) -> Source:
        """The source."""
        lines = self._consumer_lines()
        names = [p.name for p in self.kernel.parameters]
        pointers = [p.name for p in self.kernel.parameters if p.is_pointer]
        arguments = [
            *names,
            *(f"{n}_block" for n in self.result_descriptors),
            *(_buffer(*kind) for kind in self.buffers),
        ]
        shared = [*self.operands, "full", "empty", *(["order"] if self.config.ping_pong else [])]
        hints = [f"{name} = tl.multiple_of({name}, {VECTOR_BYTES})" for name in pointers]
        functions = [
            Function("producer", (*self._operand_blocks(), *shared), tuple(self._producer_lines())),
            Function("consumer", (*arguments, *shared, "GROUP: tl.constexpr"), (*hints, *lines)),
        ]
        return self._source(functions, self._start(arguments, shared))

    def _descriptors(self) -> list[TensorDescriptor]:
        """The statements that create the descriptors of operands and results."""
        named = {**{n: d for n, d in self.operands.items() if d is not None}, **self.result_descriptors}
        return [d.record(f"{name}_block", _layout(d), "tl") for name, d in named.items()]

    def _source(self, functions: Sequence[Function], body: Sequence[str | TensorDescriptor]) -> Source:
        store = [STORE_FUNCTION] if self.result_descriptors else []
        grid, warps = TileCount.of(min(self._tile_count(), self.max_programs)), self.config.warps // self.groups
        return Source(
            self.kernel.name, tuple(self.kernel.parameters), grid, tuple(body), warps, registers=self.registers[1],
            language=GLUON, origins=origins([n.op for n in self.contraction.structure.nodes]), preamble=(HEAD,),
            functions=(*definitions(self.writer.calls, GLUON), BARRIERS, *store, *functions),
        )  # fmt: skip

    def _tile_count(self) -> int:
        """The number of tiles."""
        return math.prod(tile_count(axis).static or 0 for axis in self.full_tile.axes if axis.name in "bmn")

    def _loop(self, lines: Sequence[str], count: int = 0) -> list[str]:
        """A loop of `lines` over the tiles of a program; `count` is the initial value of the counter of steps."""
        header = f"for tile in range(tl.program_id(0), {self._tile_count()}, tl.num_programs(0)):"
        return [f"count = {count}", header, *nested(lines)]

    def _consumer_loop(self, lines: Sequence[str]) -> list[str]:
        """A loop of `lines` over the tiles of a warp group: all of the program's, or every other with ping-pong."""
        if not self.config.ping_pong:
            return self._loop(lines)
        first, every = "tl.program_id(0) + GROUP * tl.num_programs(0)", "2 * tl.num_programs(0)"
        header = f"for tile in range({first}, {self._tile_count()}, {every}):"
        return [
            f"count = GROUP * {self._steps_per_tile}",
            header,
            *nested([*lines, f"count += {self._steps_per_tile}"]),
        ]

    @property
    def _steps_per_tile(self) -> int:
        """The steps over the depth of a tile."""
        return -(-(self._axis("ka").size.static or 1) // self.config.depth)

    def _tile_position_lines(self) -> list[str]:
        """The lines that find the position of a tile."""
        writer, self.writer, self.tile = self.writer, Writer(), self.full_tile
        write_tile_rasterization(self.writer, "tile", *(tile_count(self._axis(name)) for name in "mn"))
        lines, self.writer = [str(line) for line in self.writer.scopes[0].lines], writer
        return lines

    def _producer_lines(self) -> list[str]:
        """The producer warp: loads the blocks of each step of each tile, except the blocks of the prologue."""
        stages = self.config.stages
        step = [
            f"stage = count % {stages}",
            f"mbarrier.wait(empty.index(stage), ((count // {stages}) & 1) ^ 1)",
            *self._load_lines(),
            "count += 1",
        ]
        steps = f"for k_at in range(begin, {self._axis('ka').size}, {self.config.depth}):"
        begin = f"begin = tl.where(tile == tl.program_id(0), {self._prologue_steps * self.config.depth}, 0)"
        return self._loop([*self._tile_position_lines(), begin, steps, *nested(step)], self._prologue_steps)

    @property
    def _prologue_steps(self) -> int:
        """The steps of the first tile that are loaded before the warp groups start."""
        return min(self.config.stages, self._steps_per_tile)

    def _prologue_lines(self) -> list[str]:
        """The loads of the prologue."""
        loads = [f"for stage in gl.static_range({self._prologue_steps}):", f"    k_at = stage * {self.config.depth}"]
        return ["tile = tl.program_id(0)", *self._tile_position_lines(), *loads, *nested(self._load_lines())]

    def _load_lines(self) -> list[str]:
        """The TMA loads of the blocks of a step."""
        size = self.config.stage_bytes(self.contraction.problem)
        (_, left), *rights = self._present_operands()
        lefts = (replace(left, starts={**left.starts, "m": self._first_row(g)}) for g in range(self.groups_per_tile))
        copies = [("left_block", part.coordinates, f"left.index(stage * {self.groups_per_tile} + {g})")
                  for g, part in enumerate(lefts)]  # fmt: skip
        copies += [(f"{name}_block", right.coordinates, f"{name}.index(stage)") for name, right in rights]
        return [
            "bar = full.index(stage)",
            f"mbarrier.expect(bar, {size})",
            *(f"load_block({block}, {coordinates}, bar, {buffer})" for block, coordinates, buffer in copies),
        ]

    def _first_row(self, group: int) -> str:
        """The text of the first row of a warp group."""
        return f"row * {self.config.rows}{self._group_offset(group)}"

    def _consumer_lines(self) -> list[str]:
        """A consumer warp group: accumulates its rows of each tile, and computes the epilogue."""
        epilogue = self._epilogue_lines()
        steps = f"for k_at in range(0, {self._axis('ka').size}, {self.config.depth}):"
        lines = [
            *self._tile_position_lines(),
            *(f"{name} = tl.zeros(({self.rows}, {columns}), tl.float32, {self._accumulator_layout(columns)})"
              for name, columns in zip(self.accumulators, self.columns, strict=True)),
            *self._alternate([steps, *nested(self._step_lines())]),
            *epilogue,
        ]  # fmt: skip
        return [
            *map(str, self.writer.scopes[0].lines),
            *self._consumer_loop(lines),
            *(["tma.store_wait(0)"] if self.result_descriptors else []),
        ]

    def _alternate(self, steps: Sequence[str]) -> list[str]:
        """The steps of a tile; a ping-pong warp group begins when the other one has begun all of its steps.

        Otherwise a buffer could be two phases behind, which the parity of its mbarrier does not tell from ready.
        """
        if not self.config.ping_pong:
            return list(steps)
        begin = f"mbarrier.wait(order.index(GROUP), (count // {2 * self._steps_per_tile} & 1) ^ (1 - GROUP))"
        return [begin, *steps, "mbarrier.arrive(order.index(1 - GROUP))"]

    def _accumulator_layout(self, columns: int) -> str:
        """The layout of an accumulator of `columns` columns."""
        depth = WGMMA.depth_bytes // self.contraction.problem.element_bytes
        return f"tl.NVMMADistributedLayout([3, 0], [4, 1], [16, {columns}, {depth}])"

    def _epilogue_lines(self) -> list[str]:
        """The epilogue of a tile, accumulator by accumulator."""
        sums = ", ".join(self.accumulators)
        lines = [
            f"{sums} = warpgroup_mma_wait(0, deps=({sums},))",
            f"mbarrier.arrive(empty.index((count - 1) % {self.config.stages}))",
            "tma.store_wait(0)",
        ]
        for accumulator in zip(self.accumulators, self.offsets, self.columns, strict=True):
            self.writer.open(TILE_AXES)
            self._accumulator_epilogue(*accumulator)
            lines += map(str, self.writer.scopes.pop().lines)
        return lines

    def _wait_lines(self) -> list[str]:
        """Waits for the blocks of a step."""
        stages = self.config.stages
        return [f"stage = count % {stages}", f"mbarrier.wait(full.index(stage), (count // {stages}) & 1)"]

    def _step_lines(self) -> list[str]:
        """A step; the buffers of the step before are released when its products are done."""
        stages, sums = self.config.stages, ", ".join(self.accumulators)
        group = " + GROUP" if self.groups_per_tile > 1 else ""
        left, *rights = self._present_operands()
        blocks = [f"{name}.index(stage){transposition(d, OPERAND_AXES[1])}" for name, d in rights]
        # The precision of f32 is tf32, Triton's default.
        products = [f"{name} = warpgroup_mma(a, {block}, {name}, use_acc=k_at > 0, is_async=True)"
                    for name, block in zip(self.accumulators, blocks, strict=True)]  # fmt: skip
        return [
            *self._wait_lines(),
            f"a = left.index(stage * {self.groups_per_tile}{group}){transposition(left[1], OPERAND_AXES[0])}",
            *products,
            f"{sums} = warpgroup_mma_wait({len(self.accumulators)}, deps=({sums},))",
            f"mbarrier.arrive(empty.index(tl.maximum(count - 1, 0) % {stages}), pred=k_at > 0)",
            "count += 1",
        ]

    def _accumulator_epilogue(self, name: str, first: int, columns: int) -> None:
        """The epilogue of one accumulator, slice by slice of columns."""
        width = min(self.slice_columns, columns)
        for index, part in enumerate(self._split_columns(name, self.rows, columns, columns // width)):
            self._select_part(first + index * width, width)
            for axis in "bmn":
                self.tile.emit_axis(self._axis(axis))
            self._epilogue_slice(part)

    #: The epilogue loads tensors by pointers.
    has_tma_epilogue = False

    def _store(self, node: Node, use: Use, value: Value) -> None:
        """Stores a slice of a result, from the buffer that the slice before did not use."""
        tensor, descriptor = self.kernel.tensor(use.value), self._block_descriptor(node, use, "mn")
        assert descriptor is not None
        kind = tensor.element, descriptor.dimensions[-1].axis.block
        name, count = f"{tensor.name}_{kind[1]}", self.buffers[kind]
        self.result_descriptors[name] = descriptor
        buffer = self.last_buffer[kind] = (self.last_buffer.get(kind, -1) + 1) % count
        staging = f"{_buffer(*kind)}.index(GROUP * {count} + {buffer})"
        self.writer.line(f"store_tile({name}_block, {descriptor.positions}, {staging}, {value.name})")

    def _operand_blocks(self) -> list[str]:
        """The names of the operands' descriptors."""
        return [f"{name}_block" for name in self.operands]

    def _start(self, arguments: Sequence[str], shared: Sequence[str]) -> list[str | TensorDescriptor]:
        """The entry: creates descriptors, buffers and barriers, loads the prologue, and starts the warp groups."""
        stages, operands = self.config.stages, dict(self._present_operands())
        slices = {(d.tensor.element, d.dimensions[-1].axis.block): d for d in self.result_descriptors.values()}
        memory = [*((n, d, stages * (self.groups_per_tile if n == "left" else 1)) for n, d in operands.items()),
                  *((_buffer(*k), d, self.buffers[k] * self.groups) for k, d in slices.items())]  # fmt: skip
        groups = [f"(consumer, ({', '.join([*arguments, *shared, str(g)])}))" for g in range(self.groups)]
        producer = f"(producer, ({', '.join([*self._operand_blocks(), *shared])}))"
        return [
            *self._descriptors(),
            *(_allocation(*block) for block in memory),
            f"full, empty = barriers({stages}, 1), barriers({stages}, {self.groups_per_tile})",
            *(["order = barriers(2, 1)"] if self.config.ping_pong else []),
            "fence_async_shared()",
            *self._prologue_lines(),
            *warp_specialize(groups, producer, self.registers[0]),
        ]


class HopperF32MatmulEmitter(HopperMatmulEmitter):
    """Writes the kernel of an f32 product without tensor cores; the consumer warps share a tile and multiply by FMA.

    The consumer warps use each element from shared memory 8 or 16 times, twice as often as the plain kernel, and load
    16 bytes at a time without bank conflicts.
    """

    def _partition_tile(self) -> None:
        rows, columns, warps = self.config.rows, self.config.columns, self.config.warps
        self.groups_per_tile, self.groups, self.rows, self.columns = 1, 1, rows, [columns]
        self.slice_columns, self.slices = columns, []
        target = gpu_target()
        # The producer warps have few registers: a thread has half of the accumulators of a consumer on average.
        average = rows * columns // (2 * WARP * warps) + target.model.other_registers
        self.registers = 0, average
        self.max_programs = target.sms * (target.sm_registers // (WARP * average * 2 * warps))

    @property
    def is_possible(self) -> bool:
        """Whether TMA can read both operands."""
        return None not in self.operands.values() and self.config.stages > 1 and not self.kernel.checks

    def _accumulator_layout(self, columns: int) -> str:
        """A thread loads 16 contiguous bytes of an operand at a time."""
        warps = 2, self.config.warps // 2
        operands = zip(self._present_operands(), "mn", strict=True)
        contiguous = [axis_order(descriptor)[-1] == side for (_, descriptor), side in operands]
        each = [
            4 if is_contiguous else 8 // lanes for is_contiguous, lanes in zip(contiguous, WARP_SHAPE, strict=True)
        ]
        return f"tl.BlockedLayout({each}, {list(WARP_SHAPE)}, {list(warps)}, [1, 0])"

    def _step_lines(self) -> list[str]:
        """A step; its buffers are released once they have been loaded.

        The fence orders these loads before the next TMA writes, which use the asynchronous proxy.
        """
        layout = self._accumulator_layout(self.config.columns)
        operands = zip("ab", self._present_operands(), OPERAND_AXES, strict=True)
        loads = [
            f"{name} = {memory}.index(stage){transposition(descriptor, sides)}"
            f".load(tl.DotOperandLayout({operand}, {layout}, 0))"
            for operand, (name, (memory, descriptor), sides) in enumerate(operands)
        ]
        return [
            *self._wait_lines(),
            *loads,
            "acc0 = tl.dot_fma(a, b, acc0)",
            "fence_async_shared()",
            "mbarrier.arrive(empty.index(stage))",
            "count += 1",
        ]

    def _epilogue_lines(self) -> list[str]:
        self._select_part(0, self.config.columns)
        self.writer.open(TILE_AXES)
        for axis in "bmn":
            self.tile.emit_axis(self._axis(axis))
        self._epilogue_slice("acc0")
        return [str(line) for line in self.writer.scopes.pop().lines]

    _store = MatmulEmitter._store


def hopper_form(product: Contraction) -> dict[str, Source]:
    """The form of a product for Hopper, by its architecture, where it is expected to be the fastest."""
    emission = _emission(product) if len(product.terms) == 1 else None
    return target_form(emission.emit() if emission is not None and emission.is_possible else None)


def _emission(product: Contraction) -> HopperMatmulEmitter | None:
    config = warp_specialized_config(product.problem)
    emission = HopperMatmulEmitter if product.problem.uses_tensor_cores else HopperF32MatmulEmitter
    return None if config is None else emission(product, config)


def _accumulator_columns(columns: int, most: int) -> list[int]:
    """The columns of a tile's accumulators, powers of two up to `most`: 160 are 128 and 32."""
    first = min(most, 1 << columns.bit_length() - 1)
    return [first, *(_accumulator_columns(columns - first, most) if columns > first else [])]


def _buffer(element: str, columns: int) -> str:
    """The name of the shared-memory buffers of slices of results."""
    return f"buffer_{element}_{columns}"


def axis_order(descriptor: Descriptor) -> list[str]:
    """The axes of a block in the order of memory."""
    return [d.axis.name for d in descriptor.dimensions]


def transposition(descriptor: Descriptor, sides: Sequence[str]) -> str:
    """The text that transposes a block from the order of memory to the order of `sides`, where these differ."""
    return "" if axis_order(descriptor) == list(sides) else ".permute((1, 0))"


def _layout(descriptor: Descriptor) -> str:
    """The layout of a block in shared memory: rows swizzled in runs of at most `TMA.swizzle_bytes`."""
    width = bytes_of(descriptor.tensor.element)
    swizzle = min(descriptor.dimensions[-1].axis.block * width, TMA.swizzle_bytes)
    return f"NVMMASharedLayout({swizzle}, {8 * width}, 2)"


def _shape(descriptor: Descriptor) -> list[str]:
    return [str(d.axis.block) for d in descriptor.dimensions]


def _allocation(name: str, descriptor: Descriptor, count: int) -> str:
    """Allocates `count` shared-memory buffers of a block."""
    shape = ", ".join([str(count), *_shape(descriptor)])
    element, layout = TYPES[descriptor.tensor.element], _layout(descriptor)
    return f"{name} = tl.allocate_shared_memory(tl.{element}, [{shape}], tl.{layout})"
