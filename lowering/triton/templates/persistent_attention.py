"""Persistent, warp-specialized attention kernels in Gluon for Hopper: tile schedule, TMA descriptors, the source."""

from __future__ import annotations

from collections.abc import Sequence

from oneflow.lowering.targets.instructions import TMA, WGMMA
from oneflow.lowering.targets.selection import gpu_target
from oneflow.lowering.triton.codegen.emission import origins
from oneflow.lowering.triton.codegen.kernel import TYPES, Tensor
from oneflow.lowering.triton.source import GLUON, Source, TensorDescriptor
from oneflow.lowering.triton.symbolic_sizes import TileCount, power_of_two
from oneflow.lowering.triton.templates.attention_writer import AttentionShape
from oneflow.lowering.triton.templates.outline_templates import TemplateInstance
from oneflow.lowering.triton.templates.warp_specialization import BARRIERS, IMPORTS

#: The narrowest block of a row of a head of 16-bit elements.
MIN_WIDTH = TMA.swizzle_bytes // 2
#: The tile schedule: which block of queries a program takes in an iteration, and the key blocks of this block.
TILE_SCHEDULE = """

@gluon.jit
def scheduled_tile(iteration, blocks, work_items, CAUSAL: gl.constexpr, PAIRED: gl.constexpr):
    # The tile of an iteration of a program: its block, the number of its head, and whether the tile is valid. With
    # PAIRED a light block of queries (few keys) follows each heavy one.
    if PAIRED:
        work_item = iteration // 2 * gl.num_programs(0) + gl.program_id(0)
        pairs = (blocks + 1) // 2
        light = work_item % pairs
        heavy = blocks - 1 - light
        block = gl.where(iteration % 2 == 0, heavy, light)
        return block, work_item // pairs, (work_item < work_items) & ((iteration % 2 == 0) | (light != heavy))
    else:
        work_item = iteration * gl.num_programs(0) + gl.program_id(0)
        block = work_item % blocks
        if CAUSAL:
            block = blocks - 1 - block
        return block, work_item // blocks, work_item < work_items


@gluon.jit
def key_block_counts(block, size, ROWS: gl.constexpr, KEYS: gl.constexpr, CAUSAL: gl.constexpr):
    # The number of key blocks that a block of queries attends to, and how many of the last of these need a mask.
    end = size
    whole = size // KEYS
    if CAUSAL:
        end = gl.minimum((block + 1) * ROWS, size)
        whole = gl.minimum(block * ROWS // KEYS, whole)
    steps = gl.cdiv(end, KEYS)
    return steps, steps - whole
"""


def block_width(instance: TemplateInstance, shape: AttentionShape) -> int:
    """The columns of a block that holds a head; 0 where only the plain kernel fits: masks, dropout, narrow heads."""
    attributes, widths = instance.attributes, (shape.width, shape.value_width)
    plain = "mask" in instance.tensors or float(attributes["rate"]) > 0 or float(attributes["scale"]) <= 0
    known = None not in [size.static for size in (shape.batch, shape.query_length, shape.key_length)]
    fits = known and not plain and min(widths) > MIN_WIDTH // 2
    return max(map(padded_width, widths)) if fits else 0


def padded_width(width: int) -> int:
    """The columns of a block whose rows have `width` elements."""
    return max(MIN_WIDTH, power_of_two(width))


def descriptor_lines(tensor: Tensor, name: str, rows: int, buffers: int = 0) -> list[str | TensorDescriptor]:
    """The TMA descriptor `all_<name>` of blocks of a tensor of static shape, and the line that allocates `buffers`
    shared-memory buffers.
    """
    block, layout = (1, 1, rows, padded_width(tensor.shape[3].static or 0)), "NVMMASharedLayout(128, 16, 4)"
    descriptor = tensor.descriptor(f"all_{name}", block, layout, "gl")
    assert descriptor is not None
    shape, element = [buffers, *block], f"gl.{TYPES[tensor.element]}"
    allocation = f"{name} = gl.allocate_shared_memory({element}, {shape}, gl.{layout})"
    return [descriptor, *([allocation] if buffers else [])]


class PersistentAttention:
    """The kernel of one attention call: a program per SM, which computes a tile in each iteration.

    A tile is a block of `block_rows` of the `rows` rows of one of `heads` heads.
    """

    def __init__(
        self, instance: TemplateInstance, shape: AttentionShape, heads: int, rows: int, block_rows: int
    ) -> None:
        self.instance, self.shape, self.heads = instance, shape, heads
        sizes = (shape.batch, shape.query_length, shape.key_length)
        self.batch, self.query_length, self.key_length = (size.static or 0 for size in sizes)
        self.causal = bool(instance.attributes["causal"])
        self.blocks = -(-rows // block_rows)
        self.tiles = self.blocks * self.batch * heads

    @property
    def work_items(self) -> int:
        """The units of work: tiles, or pairs of a heavy and a light tile where there are enough."""
        return -(-self.blocks // 2) * self.batch * self.heads if self.paired else self.tiles

    @property
    def paired(self) -> bool:
        """Whether programs compute pairs of a heavy and a light tile, which balances causal attention."""
        least = gpu_target().kernels.attention.min_paired_tiles_per_sm * gpu_target().sms
        return self.causal and self.tiles >= least

    @property
    def iterations(self) -> int:
        """The most tiles that a program computes."""
        return -(-self.work_items // gpu_target().sms) * (2 if self.paired else 1)

    def build_source(self, functions: str, lines: Sequence[str | TensorDescriptor], registers: int) -> Source:
        """The source: `functions`, and `lines` as the body of the kernel; `registers` of a thread on average."""
        kernel, programs = self.instance.kernel, TileCount.of(min(self.work_items, gpu_target().sms))
        return Source(
            kernel.name, tuple(kernel.parameters), programs, tuple(lines), warps=WGMMA.warps, registers=registers,
            language=GLUON, origins=origins([kernel.func]),
            preamble=(IMPORTS, TILE_SCHEDULE, BARRIERS.text(GLUON), functions),
        )  # fmt: skip
