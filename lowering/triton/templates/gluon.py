"""What kernels for Hopper in Gluon have in common: programs that stay, blocks of tensors, and which calls have them.

Gluon keeps no promise of stability. What versions of Triton name differently has one name here, by which of theirs
there is; where one refuses a kernel all the same, the plain form runs (`runtime.cuda.cached.compile_on`).
"""

from __future__ import annotations

from collections.abc import Sequence

from oneflow.lowering.targets.choice import gpu_target
from oneflow.lowering.triton.codegen.emission import origins
from oneflow.lowering.triton.codegen.kernel import TYPES, Tensor
from oneflow.lowering.triton.codegen.prelude import commented, definitions
from oneflow.lowering.triton.codegen.symbolic_sizes import power_of_two
from oneflow.lowering.triton.names import identifier
from oneflow.lowering.triton.source import GLUON, Source, TensorDescriptor
from oneflow.lowering.triton.templates.attention_blocks import Shape
from oneflow.lowering.triton.templates.outline_templates import Filled

#: The architecture that these kernels are for, and the rows of a group of warps, which are the least of a width.
ARCH, GROUP = "sm_90", 64
#: What stands before each function.
MARK = "@gluon.jit\n"

#: What kernels begin with: copies of blocks have other names since Triton 3.8.
IMPORTS = """from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared, mbarrier, tma, warpgroup_mma, warpgroup_mma_wait
)

load_block = tma.async_load if hasattr(tma, "async_load") else tma.async_copy_global_to_shared
store_block = tma.async_store if hasattr(tma, "async_store") else tma.async_copy_shared_to_global
"""

BARRIERS = """

@gluon.jit
def barriers(COUNT: gl.constexpr, ARRIVALS: gl.constexpr):
    # Barriers that so many arrive at.
    bars = gl.allocate_shared_memory(gl.int64, [COUNT, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(COUNT):
        mbarrier.init(bars.index(i), count=ARRIVALS)
    return bars
"""

TURNS = """

@gluon.jit
def place(turn, blocks, units, CAUSAL: gl.constexpr, PAIRS: gl.constexpr):
    # The block and the head of a program's turn, and whether there is one; with PAIRS light blocks follow heavy ones.
    if PAIRS:
        unit = turn // 2 * gl.num_programs(0) + gl.program_id(0)
        pairs = (blocks + 1) // 2
        light = unit % pairs
        heavy = blocks - 1 - light
        block = gl.where(turn % 2 == 0, heavy, light)
        return block, unit // pairs, (unit < units) & ((turn % 2 == 0) | (light != heavy))
    else:
        unit = turn * gl.num_programs(0) + gl.program_id(0)
        block = unit % blocks
        if CAUSAL:
            block = blocks - 1 - block
        return block, unit // blocks, unit < units


@gluon.jit
def seen(block, size, ROWS: gl.constexpr, KEYS: gl.constexpr, CAUSAL: gl.constexpr):
    # How many blocks of keys a block of queries sees, and how many of these, the last ones, are masked.
    end = size
    whole = size // KEYS
    if CAUSAL:
        end = gl.minimum((block + 1) * ROWS, size)
        whole = gl.minimum(block * ROWS // KEYS, whole)
    steps = gl.cdiv(end, KEYS)
    return steps, steps - whole
"""


def defined(functions: str) -> str:
    """What functions name of the prelude."""
    # Gluon's language lacks the name, which its minima and maxima take.
    return definitions(functions, MARK).replace("tl.PropagateNan", "triton.language.PropagateNan")


def widest(filled: Filled, shape: Shape) -> int:
    """The width of heads that a kernel is cut for; 0 where the plain one has to do: with masks, for narrow ones."""
    attributes, widths = filled.attributes, (shape.width, shape.out)
    plain = "mask" in filled.tensors or float(attributes["rate"]) > 0 or float(attributes["scale"]) <= 0
    known = None not in [size.static for size in (shape.batch, shape.length, shape.size)]
    return max(map(padded, widths)) if known and not plain and min(widths) > GROUP // 2 else 0


def padded(width: int) -> int:
    """The lanes of a block that has so many elements of a row."""
    return max(GROUP, power_of_two(width))


def described(tensor: Tensor, name: str, rows: int, count: int = 0) -> list[str | TensorDescriptor]:
    """The descriptor `all_<name>` of blocks of a tensor of known sizes, and shared memory for `count` blocks."""
    block, layout = (1, 1, rows, padded(tensor.shape[3].static or 0)), "gl.NVMMASharedLayout(128, 16, 4)"
    made = tensor.descriptor(f"all_{name}", block, layout)
    assert made is not None
    shape, element = [count, *block], f"gl.{TYPES[tensor.element]}"
    return [made, *([f"{name} = gl.allocate_shared_memory({element}, {shape}, {layout})"] if count else [])]


class Turned:
    """A kernel of one call whose programs have blocks of `rows` of all the rows of `heads` in turn."""

    def __init__(self, filled: Filled, shape: Shape, heads: int, length: int, rows: int) -> None:
        self.filled, self.shape, self.heads = filled, shape, heads
        self.batch, self.length, self.size = (n.static or 0 for n in (shape.batch, shape.length, shape.size))
        self.causal = bool(filled.attributes["causal"])
        self.blocks = -(-length // rows)
        self.tiles = self.blocks * self.batch * heads

    @property
    def units(self) -> int:
        """What programs have in their turns: blocks, or pairs of these where there are enough."""
        return -(-self.blocks // 2) * self.batch * self.heads if self.paired else self.tiles

    @property
    def paired(self) -> bool:
        """Whether a light block follows each heavy one."""
        return self.causal and self.tiles >= 2 * gpu_target().sms

    @property
    def turns(self) -> int:
        """How many turns a program has."""
        return -(-self.units // gpu_target().sms) * (2 if self.paired else 1)

    def written(self, functions: str, lines: Sequence[str | TensorDescriptor], registers: int) -> Source:
        """The source of the kernel, with so many registers for a thread on average."""
        kernel = self.filled.kernel
        names, body = [name for name, _ in kernel.parameters], "\n".join(f"    {line}" for line in lines)
        known = f"{commented(origins([kernel.func]))}{IMPORTS}{TURNS}{BARRIERS}{functions}"
        head = f"{known}\n\n@gluon.jit\ndef {identifier(kernel.name)}({', '.join(names)})"
        programs = str(min(self.units, gpu_target().sms))
        return Source(
            kernel.name, f"{head}:\n{body}\n", tuple(kernel.parameters), programs, warps=4, registers=registers,
            language=GLUON, descriptors=tuple(x for x in lines if isinstance(x, TensorDescriptor)),
        )  # fmt: skip


def side_by_side(groups: Sequence[str], reader: str, registers: int) -> list[str]:
    """The calls of every group of warps and of the warp that reads; a thread of a group has so many registers."""
    own = [str(registers)] * (len(groups) - 1)
    return [
        "gl.warp_specialize([",
        *(f"    {call}," for call in (*groups, reader)),
        f"], [{'4, ' * (len(groups) - 1)}1], [{', '.join([*own, '24'])}])",
    ]
