"""Configurations (schedules) of matrix products, the decision on split-K, and the cost model of configurations.

    ranked_configs(Product(1, 4096, 4096, 4096, 2, True))[0]   the best by the model; the rest follow in order

`choose_split_k` decides whether the depth of a product is split (split-K). Stream-K, which splits the last wave of
tiles only, is no candidate. The model counts waves of tiles over the SMs of the target. A step of a tile takes as
long as arithmetic, loads and the exposed load latency; pipeline stages and the epilogue share the shared memory of an
SM. The tiles and the parameters belong to the target. `python benchmarks/gpu.py --groups matmul` measures their
accuracy, and `benchmarks/gpu_autotune.py` the loss of the choice.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from oneflow.lowering.kernels.reduction_split import divisors
from oneflow.lowering.targets.gpu import GpuTarget
from oneflow.lowering.targets.instructions import (
    MAX_THREAD_REGISTERS,
    MIN_DOT_SIDE,
    TMA,
    VECTOR_BYTES,
    WARP,
    WARP_GROUP,
)
from oneflow.lowering.targets.matmul_model import MatmulModel, MatmulTile
from oneflow.lowering.targets.selection import gpu_target


@dataclass(frozen=True)
class Product:
    """A matrix product for the cost model.

    Attributes:
        batch, rows, columns, depth: the sizes.
        element_bytes: of an operand.
        tma_readable: whether TMA descriptors can read blocks of both operands.
        gathered: whether an operand, such as the images of a convolution, is read element by element.
        operand_reuse: for each operand, how many of its elements share an address on average (above 1 where the
            windows of a convolution overlap).
        contiguous_depth: whether the depth is the last dimension of both operands.
        epilogue_bytes: of one element of the results, and of the epilogue's operands at this element.
        widest_epilogue_bytes: of the widest of these tensors alone.
        epilogue_operations: scalar operations of the epilogue on one element.
        precision: of f32 operands, one of `options.PRECISIONS`.
        target: the GPU.
    """

    batch: int
    rows: int
    columns: int
    depth: int
    element_bytes: int
    tma_readable: bool
    gathered: bool = False
    operand_reuse: tuple[float, float] = (1.0, 1.0)
    contiguous_depth: bool = False
    epilogue_bytes: int = 2
    widest_epilogue_bytes: int = 2
    epilogue_operations: int = 0
    precision: str = "ieee"
    target: GpuTarget = field(default_factory=gpu_target)

    @property
    def uses_tensor_cores(self) -> bool:
        """Whether one instruction of tensor cores multiplies operands of this kind."""
        return self.element_bytes <= 2 or self.precision == "tf32"


@dataclass(frozen=True)
class Config(MatmulTile):
    """A configuration of a product's kernel: a tile of the target, with the shared memory that the kernel needs."""

    def stage_bytes(self, product: Product) -> int:
        """The shared memory of one pipeline stage."""
        return self.depth * (self.rows + self.columns) * product.element_bytes

    def epilogue_slice_bytes(self, element_bytes: int) -> int:
        """The shared memory of an epilogue slice whose elements have `element_bytes`."""
        return self.rows * self.columns // self.epilogue_slices * element_bytes

    def has_tma_epilogue(self, product: Product) -> bool:
        """Whether shared memory holds the blocks of the epilogue for descriptors, and all stages that overlap it."""
        stages = self.stages * self.stage_bytes(product) if self.persistent else 0
        return (
            self.tma
            and stages + self.epilogue_slice_bytes(product.epilogue_bytes) <= product.target.usable_shared_bytes
        )

    def fit_stages(self, product: Product) -> Config:
        """The configuration with as many stages (`num_stages`) as shared memory holds with an epilogue slice."""
        if not self.persistent:
            return self
        is_tma = self.has_tma_epilogue(product)
        epilogue = self.epilogue_slice_bytes(product.epilogue_bytes if is_tma else product.widest_epilogue_bytes)
        left = product.target.usable_shared_bytes - epilogue
        return replace(self, stages=min(self.stages, left // self.stage_bytes(product)))


def configs_of(tiles: Iterable[MatmulTile]) -> list[Config]:
    """The configurations for tiles of a target."""
    return [Config(**vars(tile)) for tile in tiles]


def candidate_configs(product: Product) -> list[Config]:
    """The configurations of the target's overrides, or else `ranked_configs`."""
    return configs_of(product.target.overrides.tiles) or ranked_configs(product)


@functools.cache
def ranked_configs(product: Product) -> list[Config]:
    """The configurations that fit a product, the best by the model first."""
    space = _search_space(product)
    smallest = min(c.rows for c in space), min(c.columns for c in space)
    fitting = [c for c in space if c.rows <= max(_covering_block(product.rows), smallest[0])
               and c.columns <= max(_covering_block(product.columns), smallest[1])]  # fmt: skip
    sized = dict.fromkeys(replace(c, depth=min(c.depth, _covering_block(product.depth))) for c in fitting)
    held = _in_shared_memory(sized, product)
    useful = [c for c in held if not c.persistent or _tile_count(c, product) > product.target.sms]
    return sorted(useful, key=lambda c: microseconds(c, product))


def _search_space(product: Product) -> Sequence[Config]:
    """The configurations for operands of a product's kind."""
    tiles = product.target.model.tiles
    if product.uses_tensor_cores:
        return _for_element_width(configs_of((*(tiles.tma if product.tma_readable else ()), *tiles.pointer)), product)
    return configs_of(tiles.per_lane if product.contiguous_depth and product.precision == "ieee" else tiles.f32)


def _for_element_width(configs: Iterable[Config], product: Product) -> list[Config]:
    """Configurations for 16-bit operands, with as many bytes of depth for the operands of a product."""
    return [replace(c, depth=c.depth * 2 // product.element_bytes) for c in configs]


def _in_shared_memory(configs: Iterable[Config], product: Product) -> list[Config]:
    """Configurations with as many stages as shared memory holds, without configurations of fewer than two."""
    most = product.target.usable_shared_bytes
    fitted = [replace(c, stages=min(c.stages, most // c.stage_bytes(product))) for c in configs]
    return [c for c in fitted if c.stages > 1]


def warp_specialized_config(product: Product) -> Config | None:
    """The warp-specialized configuration of the target's overrides, or else the best by the units that multiply."""
    override = product.target.overrides.warp_specialized
    if override is not None:
        return configs_of([override])[0].fit_stages(product)
    return tensor_core_config(product) if product.uses_tensor_cores else f32_config(product)


@functools.cache
def tensor_core_config(product: Product) -> Config | None:
    """The best warp-specialized configuration; None where another kernel is expected to be as fast."""
    tiles = product.target.model.tiles
    readable = product.tma_readable and product.batch == 1 and product.element_bytes != 1
    if not readable or not tiles.warp_specialized:
        return None
    best = min(
        (c.fit_stages(product) for c in _for_element_width(configs_of(tiles.warp_specialized), product)),
        key=lambda c: _warp_specialized_microseconds(c, product),
    )
    plain = microseconds(ranked_configs(product)[0], product)
    return best if _warp_specialized_microseconds(best, product) < plain else None


@functools.cache
def f32_config(product: Product) -> Config | None:
    """The best warp-specialized configuration of an exact f32 product; None where the plain kernel is as fast."""
    tiles = product.target.model.tiles.warp_specialized_f32
    exact = product.element_bytes == 4 and product.precision == "ieee"
    if not exact or product.batch != 1 or product.gathered or not tiles:
        return None
    best = min(configs_of(tiles), key=lambda c: microseconds(c, product))
    return best if microseconds(best, product) < microseconds(ranked_configs(product)[0], product) else None


def _warp_specialized_microseconds(config: Config, product: Product) -> float:
    """The expected time of a warp-specialized kernel."""
    model = product.target.model
    operations = round(model.shared_tile_slowdown * product.epilogue_operations)
    slowed = replace(product, epilogue_operations=operations)
    return microseconds(config, slowed) + model.warp_group_delay * (config.warps // WARP_GROUP)


def _fastest_microseconds(product: Product, warp_specialized: bool) -> float:
    """The expected time of the fastest kernel; `warp_specialized` says whether there can be such a kernel."""
    tensor_core = tensor_core_config(product) if warp_specialized else None
    if tensor_core is not None:
        return _warp_specialized_microseconds(tensor_core, product)
    f32 = f32_config(product) if warp_specialized else None
    return microseconds(f32 or ranked_configs(product)[0], product)


def _tile_count(config: Config, product: Product) -> int:
    return product.batch * -(-product.rows // config.rows) * -(-product.columns // config.columns)


def _covering_block(size: int) -> int:
    """The smallest block of at least a size: a power of two that `tl.dot` accepts."""
    return max(MIN_DOT_SIDE, 1 << (size - 1).bit_length())


def microseconds(config: Config, product: Product) -> float:
    """The time that the model expects: waves of tiles over the SMs, or the transfers to and from memory."""
    model, resident = product.target.model, _resident_programs(config, product)
    waves, rest = divmod(_tile_count(config, product), product.target.sms * resident)
    computed = waves * _wave_microseconds(config, product, product.target.sms * resident)
    computed += _wave_microseconds(config, product, rest) if rest else 0
    computed += model.prologue if config.persistent else 0
    computed += _epilogue_microseconds(config, product) if config.ping_pong else 0
    left, right = product.operand_reuse
    operands = (product.rows / left + product.columns / right) * product.depth * product.element_bytes
    moved = product.batch * (operands + product.rows * product.columns * product.epilogue_bytes) / model.dram_bytes
    return model.launch + max(computed, moved) + model.overlap_share * min(computed, moved)


def _resident_programs(config: Config, product: Product) -> int:
    """How many programs run on an SM at the same time."""
    if config.persistent:
        return 1
    target = product.target
    epilogue = config.epilogue_slice_bytes(product.epilogue_bytes) if config.tma else 0
    memory = max(config.stages * config.stage_bytes(product), epilogue)
    accumulators = config.rows * config.columns * (config.depth if config.per_lane_accumulators else 1)
    threads = WARP * config.warps
    registers = threads * min(accumulators // threads + target.model.other_registers, MAX_THREAD_REGISTERS)
    by_memory = target.sm_shared_bytes // (memory + target.reserved_shared_bytes)
    return max(1, min(by_memory, target.sm_registers // registers))


def _wave_microseconds(config: Config, product: Product, tiles: int) -> float:
    """The time of `tiles` tiles that are computed at the same time."""
    model, programs = product.target.model, -(-tiles // product.target.sms)
    inner = -(-product.depth // config.depth) * _step_microseconds(config, product, tiles)
    block = config.rows * config.columns
    if config.persistent:
        after = _epilogue_microseconds(config, product)
        return max(inner, (inner + after) / 2) if config.ping_pong else inner + after
    exposed = model.exposed_share if programs > 1 else 1
    computed = exposed * block * product.epilogue_operations / model.epilogue_ops
    stored = programs * block * product.epilogue_bytes / model.store_bytes
    return inner + exposed * (model.prologue + stored) + computed


def _epilogue_microseconds(config: Config, product: Product) -> float:
    """The time of a tile's epilogue in a persistent kernel."""
    model, block = product.target.model, config.rows * config.columns
    rate = model.tma_store_bytes if config.has_tma_epilogue(product) else model.pointer_store_bytes
    computed = model.exposed_share * block * product.epilogue_operations / model.epilogue_ops
    return block * product.epilogue_bytes / rate + computed


def _step_microseconds(config: Config, product: Product, tiles: int) -> float:
    """The time of one step of `tiles` tiles at the same time; unaligned blocks are not prefetched."""
    model, programs = product.target.model, -(-tiles // product.target.sms)
    block, busy = config.rows * config.columns * config.depth, model.busy_warps(product.uses_tensor_cores)
    rate = model.fma(product.element_bytes, product.uses_tensor_cores) * config.efficiency
    computed = programs * block / rate * busy / min(busy, programs * config.warps)
    computed *= model.gather_slowdown if product.gathered else 1
    computed *= model.strided_tf32_slowdown if _is_strided_tf32(product) else 1
    sizes = product.rows, product.columns, product.depth
    unaligned = product.element_bytes <= 2 and any(n * product.element_bytes % VECTOR_BYTES for n in sizes)
    loads = programs * (model.unaligned_slowdown if unaligned else 1) / model.sm_load_bytes
    read = config.stage_bytes(product) * max(loads, tiles / model.load_bytes)
    splits_lines = not unaligned and all(n * product.element_bytes % product.target.cache_line_bytes for n in sizes)
    read *= model.split_line_slowdown if splits_lines else 1
    latency = model.load_latency / (programs if unaligned else max(config.fit_stages(product).stages - 1, 1))
    if unaligned:
        return _overlapped(model, computed, read) + latency
    return _overlapped(model, computed, read, latency)


def _is_strided_tf32(product: Product) -> bool:
    """Whether an operand passes through registers: tensor cores read f32 from shared memory along the depth alone."""
    return product.uses_tensor_cores and product.element_bytes == 4 and not product.contiguous_depth


def is_transposition_worthwhile(product: Product, elements: Sequence[int]) -> bool:
    """Whether to copy operands of a tf32 product, so that both are contiguous along the depth.

    `elements` has the number of elements of each operand to copy.
    """
    if product.target.overrides.transposes_operands:
        return True
    model = product.target.model
    transposed = replace(product, contiguous_depth=True, tma_readable=_is_aligned(product))
    copied = sum(model.dependent_launch + 2 * n * product.element_bytes / model.dram_bytes for n in elements)
    return _fastest_microseconds(transposed, True) + copied < _fastest_microseconds(product, True)


def _is_aligned(product: Product) -> bool:
    """Whether TMA can read both operands where they are contiguous along the depth."""
    return product.target.has_tma and product.depth * product.element_bytes % TMA.alignment_bytes == 0


def _overlapped(model: MatmulModel, *times: float) -> float:
    """The time of activities that overlap: a smooth maximum, little more than the longest."""
    longest, exponent = max(times), model.smooth_max_exponent
    return float(longest * sum((t / longest) ** exponent for t in times) ** (1 / exponent))


def operand_reuse(loops: Iterable[int | None], elements: int | None) -> float:
    """How many elements of an operand share an address, by the sizes of its loops (None: unknown); 1 if unknown."""
    known = [size or 0 for size in loops]
    return max(1.0, math.prod(known) / elements) if elements else 1.0


@functools.cache
def grouped_launch_sizes(product: Product, count: int) -> tuple[int, ...]:
    """How to divide `count` equal products among grouped launches: the number of products of each.

    The last wave of one product often leaves SMs idle; the tiles of several products fill it.
    """
    if product.target.overrides.groups_all_calls:
        return (count,)
    model = product.target.model
    several = range(2, min(count, model.max_grouped_products) + 1)
    factors = [1.0, *(model.grouping_slowdown + n * model.grouped_product_slowdown for n in several)]
    costs = [_grouped_microseconds(product, n) * factor for n, factor in enumerate(factors, start=1)]
    best: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    for n in range(1, count + 1):
        ends = enumerate(costs[:n], start=1)
        best.append(min((best[n - k][0] + cost, (*best[n - k][1], k)) for k, cost in ends))
    return best[count][1]


def _grouped_microseconds(product: Product, count: int) -> float:
    """The time of `count` equal products as one launch, without its overhead: launches of a CUDA graph overlap."""
    batched = replace(product, batch=product.batch * count)
    return microseconds(ranked_configs(batched)[0], batched) - product.target.model.launch


@functools.cache
def choose_split_k(product: Product, loops: tuple[int, ...], warp_specialized: bool = True) -> tuple[int, int]:
    """The split-K of a product: the index of the loop to split, and the number of parts; 1 is no split.

    `loops` are the sizes of the loops that make up the depth: parts of a shorter loop may fill the last wave better
    than parts of the longest. `warp_specialized` says whether the product as a whole can have a warp-specialized
    kernel, which may be as fast as the split.
    """
    if product.target.overrides.split_k is not None:
        return product.target.overrides.split_k
    model = product.target.model
    best, split = model.split_margin * _fastest_microseconds(product, warp_specialized), (0, 1)
    for index, count in ((n, c) for n, loop in enumerate(loops) for c in divisors(loop, model.max_split_k)):
        batch, depth = product.batch * count, product.depth // count
        part = replace(product, batch=batch, depth=depth, epilogue_bytes=4, widest_epilogue_bytes=4)
        results = 4 * count * product.batch * product.rows * product.columns
        reduced = model.dependent_launch + results / model.l2_bytes
        time = microseconds(ranked_configs(part)[0], part) + reduced
        if part.depth >= model.min_split_depth and time < best:
            best, split = time, (index, count)
    return split


def most_reduction_parts(reduced: int, kept: int, column_sums: bool, shares_kernel: bool = False) -> int:
    """The most parts into which to split a reduction of `reduced` elements to each of `kept` results; 1 is no split.

    `column_sums` says that adjacent elements in memory belong to different results, as in column sums. A reduction
    that `shares_kernel` with other users of its rows reads the rows once more in a separate kernel.
    """
    sms, limits = gpu_target().sms, gpu_target().kernels.reductions
    split = limits.columns if column_sums else limits.rows
    programs = -(-kept // limits.columns_per_program) if column_sums else kept
    is_filling = programs * (1 + shares_kernel) >= split.programs_per_sm * sms
    if is_filling or kept * reduced < limits.min_split_elements or reduced < split.min_depth:
        return 1
    return max(min(limits.max_programs_per_sm * sms // programs, reduced // split.min_part), 1)
