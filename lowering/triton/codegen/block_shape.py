"""Block shapes: the elements of a program, its warps, and how its inner loops run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oneflow.lowering.kernels.nodes import Structure
from oneflow.lowering.targets.choice import gpu_target
from oneflow.lowering.triton.codegen.kernel import Kernel, bytes_of
from oneflow.lowering.triton.codegen.symbolic_sizes import Size, power_of_two, product
from oneflow.lowering.triton.codegen.tile import LinearForm

#: Elements of the longest row that is kept in registers: a row that is read again (half as long where elements have
#: 16 bits and two readings suffice), and a row that is only reduced.
MAX_ROW, MAX_REDUCED_ROW = 32768, 8192
#: Elements of a block where nothing is reduced, and of a step of a loop over blocks.
POINTWISE_BLOCK = 1024
CHUNK_BLOCK = 4096
#: Elements of a block whose reduced elements are strided in memory, and warps of its program; its columns, along
#: which it is contiguous; the fewest columns, where wider blocks would leave half of the SMs idle; and the programs
#: of an SM with which enough loads are on their way: fewer programs have larger blocks.
STRIDED_BLOCK, STRIDED_WARPS, STRIDED_COLUMNS, FEW_COLUMNS, STRIDED_PROGRAMS = 2048, 4, 64, 16, 4
#: The most strided elements that an unrolled loop reduces, so that threads read contiguous elements in vectors; and
#: the least elements of a block with such a loop.
MAX_UNROLLED, MIN_UNROLLED_BLOCK = 16, 128
#: The most steps of windows that are taken one after the other; the largest distance in memory, in elements, between
#: windows that are neighbours; the bytes of a step that a thread reads where these are not aligned; the fewest
#: positions of windows of one image for which a program stays in that image, and the candidates of its positions.
MAX_WINDOW, MAX_WINDOW_STRIDE, WINDOW_BYTES, MIN_PLANE, PLANE_BLOCKS = 128, 4, 4, 256, (1024, 512, 256)
#: Elements of a block that is read along one loop and written along another (a transpose), and its longest side.
TRANSPOSE_BLOCK, MAX_SIDE = 4096, 64
#: A tensor of more than so many times the L2 cache is streamed: its reads should not evict what has been written.
STREAMING_CACHES = 1.28
#: Bytes of a row for each thread (twice as many in long rows), and elements for each thread without reductions.
ROW_BYTES, ELEMENTS_PER_THREAD = 64, 8


@dataclass(frozen=True)
class BlockShape:
    """The shape of a program's block.

    Attributes:
        outer, inner: elements along the outer and the inner loops.
        mode: how inner loops run: `once`, `whole`, `chunk` or `step` (see `loop_nest`).
        warps: warps of a program.
        unrolled: how many steps of a loop over single steps are unrolled; 0 leaves that to Triton.
    """

    outer: int
    inner: int
    mode: str
    warps: int
    unrolled: int = 0


def choose_block_shape(kernel: Kernel, structure: Structure, sizes: Mapping[int, Size], forms: Sequence[LinearForm],
                  associative: bool, online: bool) -> BlockShape:  # fmt: skip
    """The block shape of a loop nest.

    `associative` says that every reduction is associative, `online` that sums of exponentials can be accumulated in
    the pass that finds their maximum (online softmax).
    """
    outer = product(sizes[n] for n in structure.outer).static
    inner = product(sizes[n] for n in structure.inner).static
    outer_block = power_of_two(outer) if outer is not None else POINTWISE_BLOCK
    if inner == 1:
        block = min(POINTWISE_BLOCK, outer_block)
        return BlockShape(block, 1, "once", warps_for(block // ELEMENTS_PER_THREAD))
    strided = is_strided(structure, forms)
    short = inner is not None and inner <= MAX_UNROLLED and not structure.rowwise
    moves = _moves(structure) if inner is not None and inner <= MAX_WINDOW and not structure.rowwise else []
    windows = moves and _are_neighbours(structure, structure.outer, forms)
    if windows or (short and (strided or not associative)):
        sms = gpu_target().sms
        per_sm = power_of_two((outer or POINTWISE_BLOCK * sms) // sms or 1)
        block = min(POINTWISE_BLOCK, outer_block, max(per_sm, MIN_UNROLLED_BLOCK))
        unrolled = max(n for n in range(1, MAX_UNROLLED + 1) if (inner or 1) % n == 0)
        # Windows begin at any element, so that threads read single elements: neighbouring threads read neighbours.
        is_unaligned = bool(moves) and _are_neighbours(structure, moves, forms)
        per_thread = max(WINDOW_BYTES // element_bytes(kernel), 1) if is_unaligned else ELEMENTS_PER_THREAD
        return BlockShape(block, 1, "step", warps_for(block // per_thread), unrolled)
    if not associative:
        block = min(128, outer_block)
        return BlockShape(block, 1, "step", warps_for(block // 16))
    row = power_of_two(inner) if inner is not None else CHUNK_BLOCK
    if strided:
        return _strided_shape(outer, outer_block, row, inner is not None)
    width = element_bytes(kernel)
    longest = MAX_ROW // 2 if online and width == 2 else MAX_ROW
    if inner is not None and row <= (longest if structure.rowwise else MAX_REDUCED_ROW):
        block = max(1, min(outer_block, POINTWISE_BLOCK // row))
        row_bytes = block * row * width
        warps = max(warps_for(row_bytes // ROW_BYTES), min(32, row_bytes // (64 * ROW_BYTES)))
        return BlockShape(block, row, "whole", warps)
    return BlockShape(1, 2 * CHUNK_BLOCK if structure.rowwise else CHUNK_BLOCK, "chunk", 8)


def _strided_shape(outer: int | None, outer_block: int, row: int, is_static: bool) -> BlockShape:
    """The block shape of a reduction whose elements are strided in memory, in rows of at most `row` elements."""
    sms, columns = gpu_target().sms, STRIDED_COLUMNS
    while outer is not None and columns > FEW_COLUMNS and 2 * outer <= columns * sms:
        columns //= 2
    columns = min(max(columns, STRIDED_BLOCK // row), outer_block)
    depth = min(row, STRIDED_BLOCK // columns)
    if is_static and row <= depth:
        return BlockShape(columns, depth, "whole", STRIDED_WARPS)
    programs = STRIDED_PROGRAMS if outer is None else -(-outer // (columns * sms))
    scale = power_of_two(max(STRIDED_PROGRAMS // programs, 1))
    return BlockShape(columns, min(row, depth * scale), "chunk", STRIDED_WARPS * scale)


def eviction_policy(kernel: Kernel, structure: Structure, before: str) -> str:
    """The eviction policy of a pass that reads chunks, empty for the default; `before` is that of the last pass."""
    if structure.rowwise or structure.needs_second_sweep:
        return "evict_first" if before else "evict_last"
    read = [bytes_of(t.element) * (t.count.static or 0) for t in kernel.tensors.values()]
    return "evict_first" if max(read) > STREAMING_CACHES * gpu_target().l2_cache_bytes else ""


def element_bytes(kernel: Kernel) -> int:
    """Bytes of an element of the kernel's largest tensor."""
    tensors = list(kernel.tensors.values())
    counts = [t.count.static for t in tensors]
    largest = max(tensors, key=lambda t: t.count.static or 0) if None not in counts else tensors[0]
    return bytes_of(largest.element)


def transposed_loops(
    structure: Structure, sizes: Mapping[int, Size], forms: Sequence[LinearForm]
) -> tuple[int, int] | None:
    """The loops along which results and an operand are contiguous, where these are two loops; else None."""
    one = Size.of(1)
    outer = [n for n in structure.outer if sizes[n] != one]
    along = [n for n in outer if forms[-1].loops.get(n) == one]
    if len(along) != 1 or any(f.computed for f in forms):
        return None
    others = [n for f in forms if along[0] in f.loops and f.loops[along[0]] != one
              for n in outer if f.loops.get(n) == one]  # fmt: skip
    return (along[0], others[0]) if others else None


def transpose_sides(across: int | None, along: int | None) -> tuple[int, int]:
    """The sides of a transpose's block by the sizes of its loops; the second side is along the results."""
    first, second = (MAX_SIDE if size is None else min(MAX_SIDE, power_of_two(size)) for size in (across, along))
    if first < MAX_SIDE:
        second = min(TRANSPOSE_BLOCK // first, power_of_two(along or TRANSPOSE_BLOCK))
    elif second < MAX_SIDE:
        first = min(TRANSPOSE_BLOCK // second, power_of_two(across or TRANSPOSE_BLOCK))
    return first, second


def is_strided(structure: Structure, forms: Sequence[LinearForm]) -> bool:
    """Whether the tensors that are reduced are contiguous along an outer loop and strided along the innermost one."""
    last, every, one = structure.inner[-1], {*structure.outer, *structure.inner}, Size.of(1)
    reduced = [f for f in forms if last in f.loops_used]
    most = max((len(every & f.loops_used) for f in reduced), default=0)
    reduced = [f for f in reduced if len(every & f.loops_used) == most]
    return (
        bool(reduced)
        and all(f.loops.get(last) != one for f in reduced)
        and any(f.loops.get(n) == one for f in reduced for n in structure.outer)
    )


def _are_neighbours(structure: Structure, loops: Sequence[int], forms: Sequence[LinearForm]) -> bool:
    """Whether reduced elements at neighbouring positions along one of some outer loops are neighbours in memory."""
    reduced = [f for f in forms if structure.inner[-1] in f.loops and not f.computed]
    steps = (f.loops[n].static for f in reduced for n in loops if n in f.loops)
    return any(step is not None and 0 < step <= MAX_WINDOW_STRIDE for step in steps)


def _moves(structure: Structure) -> list[int]:
    """The outer loops that move windows over a tensor."""
    outer, inner = set(structure.outer), set(structure.inner)
    positions = [{node.names[d] for d in form.dims} for node in structure.nodes for use in node.inputs
                 for form in use.access]  # fmt: skip
    found = set().union(*(p & outer for p in positions if p & inner))
    return [n for n in structure.outer if n in found]


def plane_loops(
    structure: Structure, sizes: Mapping[int, Size], forms: Sequence[LinearForm]
) -> tuple[list[int], int]:
    """The innermost outer loops, which move windows over an image, and a program's positions; none for small images.

    What does not depend on these loops, such as the filters of a depthwise convolution, is one number for a program.
    """
    moves = [n for n in _moves(structure) if sizes[n] != Size.of(1)]
    outer = [n for n in structure.outer if sizes[n] != Size.of(1)]
    size = product(sizes[n] for n in moves).static
    is_shared = any(f.loops_used & set(structure.inner) and not f.loops_used & set(moves) for f in forms)
    if not moves or size is None or size < MIN_PLANE or not is_shared or outer[-len(moves) :] != moves:
        return [], 0
    return moves, min(PLANE_BLOCKS, key=lambda block: -(-size // block) * block)


def warps_for(threads: int) -> int:
    """The number of warps for a number of threads, at most 16."""
    return max(1, min(16, power_of_two(threads // 32 or 1)))
