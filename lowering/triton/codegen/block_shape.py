"""Tiling, the block shapes of kernels: the elements of a program, its warps, and how its inner loops run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from oneflow.lowering.kernels.nodes import Structure
from oneflow.lowering.targets.instructions import MAX_WARPS, WARP
from oneflow.lowering.targets.selection import gpu_target
from oneflow.lowering.triton.codegen.kernel import Kernel, bytes_of
from oneflow.lowering.triton.codegen.tile import LinearForm
from oneflow.lowering.triton.symbolic_sizes import Size, power_of_two, product


class RowMode(Enum):
    """How the inner loops of a kernel run.

    Attributes:
        POINTWISE: there are no inner loops.
        WHOLE_ROW: the inner loops are an axis of the block.
        CHUNKED: a loop over blocks, one pass after each reduction that later nodes read; passes recompute their
            operands.
        SEQUENTIAL: a loop over single elements, for reductions that are not associative.
    """

    POINTWISE = auto()
    WHOLE_ROW = auto()
    CHUNKED = auto()
    SEQUENTIAL = auto()


@dataclass(frozen=True)
class BlockShape:
    """The shape of a program's block.

    Attributes:
        outer, inner: elements along the outer and the inner loops.
        mode: how inner loops run.
        warps: warps of a program.
        unrolled: the unroll factor of a sequential loop; 0 leaves the choice to Triton.
    """

    outer: int
    inner: int
    mode: RowMode
    warps: int
    unrolled: int = 0


def choose_block_shape(kernel: Kernel, structure: Structure, sizes: Mapping[int, Size], forms: Sequence[LinearForm],
                  associative: bool, online: bool) -> BlockShape:  # fmt: skip
    """The block shape of a loop nest.

    With `associative`, every reduction is associative. With `online`, the pass that computes the maximum of exponents
    also accumulates the sum of the exponentials (online softmax).
    """
    limits = gpu_target().kernels.blocks
    outer = product(sizes[n] for n in structure.outer).static
    inner = product(sizes[n] for n in structure.inner).static
    outer_block = power_of_two(outer) if outer is not None else limits.pointwise
    if inner == 1:
        block = min(limits.pointwise, outer_block)
        return BlockShape(block, 1, RowMode.POINTWISE, warps_for(block // limits.elements_per_thread))
    strided = is_strided(structure, forms)
    short = inner is not None and inner <= limits.max_unrolled and not structure.rowwise
    is_window = inner is not None and inner <= limits.max_window and not structure.rowwise
    window_loops = _window_loops(structure) if is_window else []
    windows = window_loops and _are_adjacent(structure, structure.outer, forms)
    if windows or (short and (strided or not associative)):
        # Windows begin at any element: threads read single elements, adjacent threads adjacent elements.
        is_unaligned = bool(window_loops) and _are_adjacent(structure, window_loops, forms)
        per_thread = limits.elements_per_thread
        if is_unaligned:
            per_thread = max(limits.window_bytes // element_bytes(kernel), 1)
        return _unrolled_shape(outer, outer_block, inner or 1, per_thread)
    if not associative:
        block = min(limits.sequential, outer_block)
        return BlockShape(block, 1, RowMode.SEQUENTIAL, warps_for(block // limits.sequential_per_thread))
    row = power_of_two(inner) if inner is not None else limits.chunk
    if strided:
        return _strided_shape(outer, outer_block, row, inner is not None)
    width = element_bytes(kernel)
    longest = limits.max_row // 2 if online and width == 2 else limits.max_row
    if inner is not None and row <= (longest if structure.rowwise else limits.max_reduced_row):
        return _whole_row_shape(outer_block, row, width)
    chunk = 2 * limits.chunk if structure.rowwise else limits.chunk
    return BlockShape(1, chunk, RowMode.CHUNKED, limits.chunk_warps)


def _unrolled_shape(outer: int | None, outer_block: int, inner: int, per_thread: int) -> BlockShape:
    """The block shape of a reduction whose steps are sequential and unrolled, with enough programs for all SMs."""
    limits, sms = gpu_target().kernels.blocks, gpu_target().sms
    per_sm = power_of_two((outer or limits.pointwise * sms) // sms or 1)
    block = min(limits.pointwise, outer_block, max(per_sm, limits.min_unrolled))
    unrolled = max(n for n in range(1, limits.max_unrolled + 1) if inner % n == 0)
    return BlockShape(block, 1, RowMode.SEQUENTIAL, warps_for(block // per_thread), unrolled)


def _whole_row_shape(outer_block: int, row: int, width: int) -> BlockShape:
    """The block shape for rows of `row` elements of `width` bytes that are kept in registers."""
    limits = gpu_target().kernels.blocks
    block = max(1, min(outer_block, limits.pointwise // row))
    threads = block * row * width // limits.row_bytes_per_thread
    warps = max(warps_for(threads), min(MAX_WARPS, threads // (2 * WARP)))
    return BlockShape(block, row, RowMode.WHOLE_ROW, warps)


def _strided_shape(outer: int | None, outer_block: int, row: int, is_static: bool) -> BlockShape:
    """The block shape of a reduction whose elements are strided in memory, in rows of at most `row` elements."""
    limits = gpu_target().kernels.blocks
    sms, columns = gpu_target().sms, limits.strided_columns
    while outer is not None and columns > limits.min_strided_columns and 2 * outer <= columns * sms:
        columns //= 2
    columns = min(max(columns, limits.strided // row), outer_block)
    depth = min(row, limits.strided // columns)
    if is_static and row <= depth:
        return BlockShape(columns, depth, RowMode.WHOLE_ROW, limits.strided_warps)
    programs = limits.strided_programs_per_sm if outer is None else -(-outer // (columns * sms))
    scale = power_of_two(max(limits.strided_programs_per_sm // programs, 1))
    return BlockShape(columns, min(row, depth * scale), RowMode.CHUNKED, limits.strided_warps * scale)


def eviction_policy(kernel: Kernel, structure: Structure, previous: str) -> str:
    """The eviction policy of a pass over chunks, empty for the default; `previous` is the policy of the last pass."""
    limits = gpu_target().kernels.blocks
    if structure.rowwise or structure.needs_second_pass:
        return "evict_first" if previous else "evict_last"
    read = [bytes_of(t.element) * (t.count.static or 0) for t in kernel.tensors.values()]
    return "evict_first" if max(read) > limits.streamed_l2_caches * gpu_target().l2_cache_bytes else ""


def element_bytes(kernel: Kernel) -> int:
    """Bytes of an element of the kernel's largest tensor."""
    tensors = list(kernel.tensors.values())
    counts = [t.count.static for t in tensors]
    largest = max(tensors, key=lambda t: t.count.static or 0) if None not in counts else tensors[0]
    return bytes_of(largest.element)


def transposed_loops(
    structure: Structure, sizes: Mapping[int, Size], forms: Sequence[LinearForm]
) -> tuple[int, int] | None:
    """The loop along which results are contiguous and the loop along which an operand is; None for one loop."""
    one = Size.of(1)
    outer = [n for n in structure.outer if sizes[n] != one]
    contiguous = [n for n in outer if forms[-1].loops.get(n) == one]
    if len(contiguous) != 1 or any(f.computed for f in forms):
        return None
    others = [n for f in forms if contiguous[0] in f.loops and f.loops[contiguous[0]] != one
              for n in outer if f.loops.get(n) == one]  # fmt: skip
    return (contiguous[0], others[0]) if others else None


def transpose_sides(strided: int | None, contiguous: int | None) -> tuple[int, int]:
    """The sides of a transpose's block, by the sizes of its loops; results are contiguous along the second side."""
    limits = gpu_target().kernels.blocks
    first, second = (
        limits.max_transpose_side if size is None else min(limits.max_transpose_side, power_of_two(size))
        for size in (strided, contiguous)
    )
    if first < limits.max_transpose_side:
        second = min(limits.transpose // first, power_of_two(contiguous or limits.transpose))
    elif second < limits.max_transpose_side:
        first = min(limits.transpose // second, power_of_two(strided or limits.transpose))
    return first, second


def is_strided(structure: Structure, forms: Sequence[LinearForm]) -> bool:
    """Whether the reduced tensors are contiguous along an outer loop and strided along the innermost loop."""
    last, every, one = structure.inner[-1], {*structure.outer, *structure.inner}, Size.of(1)
    reduced = [f for f in forms if last in f.loops_used]
    most = max((len(every & f.loops_used) for f in reduced), default=0)
    reduced = [f for f in reduced if len(every & f.loops_used) == most]
    return (
        bool(reduced)
        and all(f.loops.get(last) != one for f in reduced)
        and any(f.loops.get(n) == one for f in reduced for n in structure.outer)
    )


def _are_adjacent(structure: Structure, loops: Sequence[int], forms: Sequence[LinearForm]) -> bool:
    """Whether elements at adjacent positions along one of the outer `loops` are adjacent in memory."""
    limits = gpu_target().kernels.blocks
    reduced = [f for f in forms if structure.inner[-1] in f.loops and not f.computed]
    steps = (f.loops[n].static for f in reduced for n in loops if n in f.loops)
    return any(step is not None and 0 < step <= limits.max_window_stride for step in steps)


def _window_loops(structure: Structure) -> list[int]:
    """The outer loops that move windows over a tensor."""
    outer, inner = set(structure.outer), set(structure.inner)
    positions = [{node.loop_ids[d] for d in form.dims} for node in structure.nodes for use in node.inputs
                 for form in use.access]  # fmt: skip
    found = set().union(*(p & outer for p in positions if p & inner))
    return [n for n in structure.outer if n in found]


def plane_loops(
    structure: Structure, sizes: Mapping[int, Size], forms: Sequence[LinearForm]
) -> tuple[list[int], int]:
    """The innermost outer loops, which move windows over an image, and the block of positions of a program.

    There are no loops for small images. An operand that does not depend on these loops, such as the filter of a
    depthwise convolution, is a scalar in a program.
    """
    limits = gpu_target().kernels.blocks
    window_loops = [n for n in _window_loops(structure) if sizes[n] != Size.of(1)]
    outer = [n for n in structure.outer if sizes[n] != Size.of(1)]
    size = product(sizes[n] for n in window_loops).static
    is_shared = any(f.loops_used & set(structure.inner) and not f.loops_used & set(window_loops) for f in forms)
    if (
        not window_loops
        or size is None
        or size < limits.min_plane
        or not is_shared
        or outer[-len(window_loops) :] != window_loops
    ):
        return [], 0
    return window_loops, min(limits.planes, key=lambda block: -(-size // block) * block)


def warps_for(threads: int) -> int:
    """The number of warps for a number of threads."""
    return max(1, min(gpu_target().kernels.blocks.max_warps, power_of_two(threads // WARP or 1)))
