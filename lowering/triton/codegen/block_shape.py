"""How large blocks are, and in which way inner loops run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oneflow.lowering.kernels.nodes import Structure
from oneflow.lowering.targets.choice import gpu_target
from oneflow.lowering.triton.codegen.kernel import Kernel, bytes_of
from oneflow.lowering.triton.codegen.symbolic_sizes import Size, power_of_two, product
from oneflow.lowering.triton.codegen.tile import Form

#: The largest row that is kept in registers where it is read again (half of it where elements have 16 bits and two
#: readings are enough), and where it is only reduced.
ROW, REDUCED = 32768, 8192
POINTWISE = 1024
CHUNK = 4096
#: Elements of a block where reduced elements lie apart, and how many lie beside each other there: few where there are
#: only so many for each processor, so that the way down is shorter.
STRIDED, COLUMNS, FEW = 2048, 64, 16
#: The most elements that lie apart and are reduced one after the other, so that threads read those beside each other
#: in vectors, and the least elements of a block that does so where there are few.
STEPS, SPREAD = 16, 128
#: The elements of a block that is read along one loop and written along another, and its longest side.
CROSSED, SIDE = 4096, 64
#: The bytes of a tensor of which the cache keeps little: what is read once need not take the place of what was
#: written, which has to go to memory then.
CACHE = 1 << 26
#: Bytes of a row that a thread holds (twice as many in long rows), and elements of a block where nothing is reduced.
HELD, EACH = 64, 8


@dataclass(frozen=True)
class Blocks:
    """Sizes of a block, the mode of the inner loops (see `nest`), warps, and whether steps are written out."""

    outer: int
    inner: int
    mode: str
    warps: int
    unrolled: bool = False


def choose_blocks(kernel: Kernel, structure: Structure, sizes: Mapping[int, Size], forms: Sequence[Form],
                  regroups: bool, online: bool) -> Blocks:  # fmt: skip
    """The blocks of a nest; `regroups` says that every reduction is associative, `online` that sums of exponentials
    can be found beside their maximum.
    """
    outer = product(sizes[n] for n in structure.outer).static
    inner = product(sizes[n] for n in structure.inner).static
    wide = power_of_two(outer) if outer is not None else POINTWISE
    if inner == 1:
        block = min(POINTWISE, wide)
        return Blocks(block, 1, "once", warps_of(block // EACH))
    strided, few = is_strided(structure, forms), inner is not None and inner <= STEPS and not structure.rowwise
    if few and (strided or not regroups):
        spread = power_of_two((outer or POINTWISE * gpu_target().sms) // gpu_target().sms or 1)
        block = min(POINTWISE, wide, max(spread, SPREAD))
        return Blocks(block, 1, "step", warps_of(block // EACH), True)
    if not regroups:
        block = min(128, wide)
        return Blocks(block, 1, "step", warps_of(block // 16))
    row = power_of_two(inner) if inner is not None else CHUNK
    if strided:
        beside = COLUMNS if outer is None or outer > FEW * gpu_target().sms else FEW
        columns = min(max(beside, STRIDED // row), wide)
        depth = min(row, STRIDED // columns)
        return Blocks(columns, depth, "whole" if inner is not None and row <= depth else "chunk", 4)
    width = width_of(kernel)
    most = ROW // 2 if online and width == 2 else ROW
    if inner is not None and row <= (most if structure.rowwise else REDUCED):
        block = max(1, min(wide, POINTWISE // row))
        held = block * row * width
        return Blocks(block, row, "whole", max(warps_of(held // HELD), min(32, held // (64 * HELD))))
    return Blocks(1, 2 * CHUNK if structure.rowwise else CHUNK, "chunk", 8)


def kept(kernel: Kernel, structure: Structure, before: str) -> str:
    """How long the cache keeps what a sweep in chunks reads, if that is said; `before` is what the last one said."""
    if structure.rowwise or structure.again:
        return "evict_first" if before else "evict_last"
    read = [bytes_of(t.element) * (t.count.static or 0) for t in kernel.tensors.values()]
    return "evict_first" if max(read) > CACHE else ""


def width_of(kernel: Kernel) -> int:
    """The bytes of an element of the kernel's largest tensor."""
    tensors = list(kernel.tensors.values())
    counts = [t.count.static for t in tensors]
    largest = max(tensors, key=lambda t: t.count.static or 0) if None not in counts else tensors[0]
    return bytes_of(largest.element)


def crossing(structure: Structure, sizes: Mapping[int, Size], forms: Sequence[Form]) -> tuple[int, int] | None:
    """The loop along which results lie, and another one along which an operand does; None where there is no other."""
    one = Size.of(1)
    outer = [n for n in structure.outer if sizes[n] != one]
    along = [n for n in outer if forms[-1].loops.get(n) == one]
    if len(along) != 1 or any(f.computed for f in forms):
        return None
    others = [n for f in forms if along[0] in f.loops and f.loops[along[0]] != one
              for n in outer if f.loops.get(n) == one]  # fmt: skip
    return (along[0], others[0]) if others else None


def sides(across: int | None, along: int | None) -> tuple[int, int]:
    """The sides of a block of two loops by their sizes, that along the results second."""
    first, second = (SIDE if size is None else min(SIDE, power_of_two(size)) for size in (across, along))
    if first < SIDE:
        second = min(CROSSED // first, power_of_two(along or CROSSED))
    elif second < SIDE:
        first = min(CROSSED // second, power_of_two(across or CROSSED))
    return first, second


def is_strided(structure: Structure, forms: Sequence[Form]) -> bool:
    """Whether elements along the inner loops lie apart in the tensor that is swept, those along outer ones not."""
    last, every, one = structure.inner[-1], {*structure.outer, *structure.inner}, Size.of(1)
    swept = [f for f in forms if last in f.walked]
    most = max((len(every & f.walked) for f in swept), default=0)
    swept = [f for f in swept if len(every & f.walked) == most]
    return (
        bool(swept)
        and all(f.loops.get(last) != one for f in swept)
        and any(f.loops.get(n) == one for f in swept for n in structure.outer)
    )


def warps_of(threads: int) -> int:
    """The warps of a program that keeps a number of threads busy."""
    return max(1, min(16, power_of_two(threads // 32 or 1)))
