"""Configurations of matrix products, and the model that predicts the time of each and chooses among them.

    choose(Product(1, 4096, 4096, 4096, 2, True))[0]   the best by the model; the rest follow in order

The model counts waves of tiles over the SMs of the target. A step of a tile takes as long as arithmetic, loads and
the latency that its stages do not hide; stages and the epilogue share the shared memory of an SM. The parameters are
those of `targets.gpu`. `python benchmarks/gpu.py --groups matmul` measures how well they meet, and
`benchmarks/gpu_autotune.py` what the choice loses.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from oneflow.lowering.targets.choice import gpu_target
from oneflow.lowering.targets.gpu import GpuTarget, MatmulModel


@dataclass(frozen=True)
class Product:
    """A product: its sizes, the bytes of an operand's element, whether blocks can be read by descriptors.

    A `gathered` one has an operand, such as the images of a convolution, whose elements are read one by one. `shared`
    says for each operand how many of its elements are one in memory, as where windows overlap. Both operands of one
    that lies `along` the depth have it as their last dimension. An element of the result and those it is combined
    with have `finished` bytes, the widest of them `widest`; its epilogue has so many `operations`. `target` runs it.
    """

    batch: int
    rows: int
    columns: int
    depth: int
    width: int
    described: bool
    gathered: bool = False
    shared: tuple[float, float] = (1.0, 1.0)
    along: bool = False
    finished: int = 2
    widest: int = 2
    operations: int = 0
    target: GpuTarget = field(default_factory=gpu_target)


@dataclass(frozen=True)
class Config:
    """A way to compute a product: the block of a step, warps of a program, and stages of blocks that are underway.

    Where `described`, blocks are read by descriptors. Programs that stay go from tile to tile: blocks of the next one
    are read while the result is finished, in `slices` of columns; those of others have the memory to themselves.
    `rate` is the share of a processor's speed that the block reaches. Those that add `apart` keep a sum for each
    element of a step's depth, and add these at the end. Two groups of warps that take `turns` have a tile each: one
    finishes its own while the other multiplies.
    """

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    rate: float
    described: bool = False
    slices: int = 1
    stays: bool = False
    apart: bool = False
    turns: bool = False

    def stage(self, product: Product) -> int:
        """The bytes of a step's blocks."""
        return self.depth * (self.rows + self.columns) * product.width

    def finishing(self, width: int) -> int:
        """The bytes of a slice of the result with so many for an element."""
        return self.rows * self.columns // self.slices * width

    def is_direct(self, product: Product) -> bool:
        """Whether the result, and what it is combined with, has room as blocks for descriptors beside every stage."""
        beside = self.stages * self.stage(product) if self.stays else 0
        return (
            self.described
            and beside + self.finishing(product.finished)
            <= product.target.block_shared_bytes - product.target.reserved_shared_bytes
        )

    def fitted(self, product: Product) -> Config:
        """It with as many stages as there is memory for beside what a tile is finished with."""
        if not self.stays:
            return self
        held = self.finishing(product.finished if self.is_direct(product) else product.widest)
        left = product.target.block_shared_bytes - product.target.reserved_shared_bytes - held
        return replace(self, stages=min(self.stages, left // self.stage(product)))


# fmt: off
#: 16-bit operands: by descriptors, where there are tiles for programs to stay or anyhow, and by pointers.
DESCRIBED = (
    Config(128, 256, 64, 8, 4, 0.745, True, slices=2, stays=True),
    Config(128, 128, 64, 8, 5, 0.81, True, stays=True),
    Config(128, 256, 64, 8, 4, 0.755, True),
    Config(128, 128, 64, 4, 6, 0.82, True),
    Config(128, 128, 64, 8, 3, 0.83, True),
    Config(64, 128, 64, 4, 3, 0.73, True),
    Config(64, 128, 64, 4, 4, 0.73, True),
    Config(64, 128, 128, 4, 4, 0.73, True),
    Config(128, 64, 128, 4, 4, 0.57, True),
    Config(64, 32, 128, 4, 8, 0.40, True),
    Config(64, 64, 128, 4, 6, 0.57, True),
)
NARROW = (
    Config(128, 256, 64, 8, 3, 0.73),
    Config(128, 128, 64, 8, 3, 0.73),
    Config(64, 128, 64, 4, 4, 0.73),
    Config(64, 64, 64, 4, 4, 0.57),
    Config(64, 32, 128, 4, 5, 0.40),
    Config(32, 64, 128, 4, 4, 0.29),
    Config(32, 32, 128, 4, 5, 0.20),
    Config(16, 64, 128, 4, 5, 0.14),
    Config(16, 32, 256, 4, 4, 0.10),
    Config(64, 16, 128, 4, 5, 0.25),
    Config(16, 16, 128, 4, 4, 0.06),
)
#: 16-bit operands on Hopper, by groups of warps that have 64 rows each, finished in `PART` columns at a time, which
#: have room twice.
PART = 64
HOPPER = (
    Config(192, 256, 64, 12, 3, 0.707, True, slices=2, stays=True),
    Config(192, 192, 64, 12, 3, 0.655, True, stays=True),
    Config(192, 128, 64, 12, 4, 0.765, True, stays=True),
    Config(192, 96, 64, 12, 5, 0.65, True, stays=True),
    Config(128, 192, 64, 8, 4, 0.76, True, stays=True),
    Config(128, 160, 64, 8, 5, 0.69, True, stays=True),
    Config(128, 144, 64, 8, 5, 0.68, True, stays=True),
    Config(64, 128, 64, 4, 8, 0.79, True, stays=True),
    Config(64, 96, 64, 4, 8, 0.73, True, stays=True),
    Config(128, 128, 64, 8, 6, 0.85, True, stays=True, turns=True),
    Config(128, 192, 64, 8, 4, 0.76, True, stays=True, turns=True),
)
#: f32 operands, by the units of plain arithmetic.
SINGLE = (
    Config(64, 64, 16, 4, 4, 0.76),
    Config(128, 64, 16, 4, 4, 0.73),
    Config(32, 32, 32, 4, 4, 0.53),
    Config(16, 32, 64, 4, 3, 0.37),
    Config(16, 16, 64, 4, 3, 0.26),
)
#: The same on Hopper, where blocks are read by a warp of its own.
SINGLES = (
    Config(128, 128, 16, 4, 6, 0.80, True),
    Config(64, 128, 16, 4, 6, 0.76, True),
)
#: f32 operands where both lie along the depth.
ALONG = (
    Config(8, 32, 32, 2, 3, 0.44, apart=True),
    Config(8, 32, 64, 4, 3, 0.38, apart=True),
    Config(16, 16, 64, 4, 3, 0.35, apart=True),
    Config(8, 16, 64, 4, 3, 0.22, apart=True),
    Config(8, 8, 64, 2, 3, 0.21, apart=True),
)
# fmt: on
#: Registers of a thread beside those of its part of the sum.
OTHERS = 64
#: Most parts of a product's depth and the least depth of one; programs a processor for other reductions, the columns
#: of one, and the elements below which one processor is enough.
MOST_PARTS, LEAST_DEPTH = 64, 256
EACH, COLUMNS, LEAST_WORK = 8, 64, 1 << 17
#: Most products of a launch (what they read has to stay until the last of them can begin), how many times as long
#: several count as they take, and by how much more for each of them.
MOST_PRODUCTS, WORTH, LONGER = 12, 1.05, 0.002


@functools.cache
def choose(product: Product) -> list[Config]:
    """The space for a product, the best by the model first."""
    single = ALONG if product.along else SINGLE
    space = single if product.width == 4 else (*(DESCRIBED if product.described else ()), *NARROW)
    least = min(c.rows for c in space), min(c.columns for c in space)
    fitting = [c for c in space if c.rows <= max(_block(product.rows), least[0])
               and c.columns <= max(_block(product.columns), least[1])]  # fmt: skip
    sized = dict.fromkeys(replace(c, depth=min(c.depth, _block(product.depth))) for c in fitting)
    found = [c for c in _in_shared_memory(sized, product) if not c.stays or _tiles(c, product) > product.target.sms]
    return sorted(found, key=lambda c: microseconds(c, product))


def _in_shared_memory(configs: Iterable[Config], product: Product) -> list[Config]:
    """Configurations with as many stages as shared memory holds; those that hold fewer than two are left out."""
    left = product.target.block_shared_bytes - product.target.reserved_shared_bytes
    fitted = [replace(c, stages=min(c.stages, left // c.stage(product))) for c in configs]
    return [c for c in fitted if c.stages > 1]


@functools.cache
def hopper(product: Product) -> Config | None:
    """The best tile of groups of warps for a product, None where other ways are expected to be as fast."""
    if not product.described or product.batch != 1:
        return None
    best = min((c.fitted(product) for c in HOPPER), key=lambda c: _by_groups(c, product))
    return best if _by_groups(best, product) < microseconds(choose(product)[0], product) else None


@functools.cache
def hopper_single(product: Product) -> Config | None:
    """The best tile for a product of f32 that a warp of its own reads, None where the plain way is as fast."""
    if product.width != 4 or product.batch != 1 or product.gathered:
        return None
    best = min(SINGLES, key=lambda c: microseconds(c, product))
    return best if microseconds(best, product) < microseconds(choose(product)[0], product) else None


def _by_groups(config: Config, product: Product) -> float:
    """What tiles of groups of warps are expected to take."""
    model = product.target.model
    finished = replace(product, operations=round(model.shared_tile_slowdown * product.operations))
    return microseconds(config, finished) + model.warp_group_delay * (config.warps // 4)


def _shortest(product: Product, grouped: bool) -> float:
    """What the fastest way is expected to take, that of groups of warps among them if they can be had."""
    found, single = (hopper(product), hopper_single(product)) if grouped else (None, None)
    return microseconds(single or choose(product)[0], product) if found is None else _by_groups(found, product)


def _tiles(config: Config, product: Product) -> int:
    return product.batch * -(-product.rows // config.rows) * -(-product.columns // config.columns)


def _block(size: int) -> int:
    """The smallest block that takes a size; blocks have at least 16."""
    return max(16, 1 << (size - 1).bit_length())


def microseconds(config: Config, product: Product) -> float:
    """What the model expects a product to take: waves of tiles over the SMs, or the time to move it."""
    model, resident = product.target.model, _resident(config, product)
    waves, rest = divmod(_tiles(config, product), product.target.sms * resident)
    taken = waves * _wave(config, product, product.target.sms * resident)
    taken += _wave(config, product, rest) if rest else 0
    taken += model.prologue if config.stays else 0
    taken += _epilogue(config, product) if config.turns else 0
    left, right = product.shared
    operands = (product.rows / left + product.columns / right) * product.depth * product.width
    moved = product.batch * (operands + product.rows * product.columns * product.finished) / model.dram_bytes
    return model.launch + max(taken, moved) + model.overlap_share * min(taken, moved)


def _resident(config: Config, product: Product) -> int:
    """How many programs an SM has at once."""
    if config.stays:
        return 1
    target = product.target
    finishing = config.finishing(product.finished) if config.described else 0
    memory = max(config.stages * config.stage(product), finishing)
    kept = config.rows * config.columns * (config.depth if config.apart else 1)
    registers = min(kept // (32 * config.warps) + OTHERS, 255) * 32 * config.warps
    by_memory = target.sm_shared_bytes // (memory + target.reserved_shared_bytes)
    return max(1, min(by_memory, target.sm_registers // registers))


def _wave(config: Config, product: Product, tiles: int) -> float:
    """What so many tiles take that are computed at once."""
    model, programs = product.target.model, -(-tiles // product.target.sms)
    inner = -(-product.depth // config.depth) * _step(config, product, tiles)
    block = config.rows * config.columns
    if config.stays:
        after = _epilogue(config, product)
        return max(inner, (inner + after) / 2) if config.turns else inner + after
    exposed = model.exposed_share if programs > 1 else 1
    computed = exposed * block * product.operations / model.epilogue_ops
    return inner + exposed * (model.prologue + programs * block * product.finished / model.store_bytes) + computed


def _epilogue(config: Config, product: Product) -> float:
    """What the epilogue of a tile takes in a persistent kernel."""
    model, block = product.target.model, config.rows * config.columns
    rate = model.tma_store_bytes if config.is_direct(product) else model.pointer_store_bytes
    return block * product.finished / rate + model.exposed_share * block * product.operations / model.epilogue_ops


def _step(config: Config, product: Product, tiles: int) -> float:
    """What a step of so many tiles takes; blocks of single elements are not prefetched."""
    model, programs = product.target.model, -(-tiles // product.target.sms)
    block, busy = config.rows * config.columns * config.depth, model.busy_warps(product.width)
    rate = model.fma(product.width) * config.rate
    computed = programs * block / rate * busy / min(busy, programs * config.warps)
    computed *= model.gather_slowdown if product.gathered else 1
    sizes = product.rows, product.columns, product.depth
    single = product.width == 2 and any(n % 8 for n in sizes)
    loads = programs * (model.unaligned_slowdown if single else 1) / model.sm_load_bytes
    read = config.stage(product) * max(loads, tiles / model.load_bytes)
    splits = not single and all(n * product.width % product.target.cache_line_bytes for n in sizes)
    read *= model.split_line_slowdown if splits else 1
    latency = model.load_latency / (programs if single else max(config.fitted(product).stages - 1, 1))
    if single:
        return _overlapped(model, computed, read) + latency
    return _overlapped(model, computed, read, latency)


def _overlapped(model: MatmulModel, *times: float) -> float:
    """The time of what overlaps: little more than the longest, by a smooth maximum."""
    longest, exponent = max(times), model.smooth_max_exponent
    return float(longest * sum((t / longest) ** exponent for t in times) ** (1 / exponent))


def shares(loops: Iterable[int | None], elements: int | None) -> float:
    """How many elements of an operand are one in memory, from the sizes of its loops; 1 if that is unknown."""
    known = [size or 0 for size in loops]
    return max(1.0, math.prod(known) / elements) if elements else 1.0


@functools.cache
def pieces(product: Product, count: int) -> tuple[int, ...]:
    """How many of so many equal products are each launch; few where more are hardly faster.

    Tiles of one product often leave processors of the last round idle, those of several fill it.
    """
    worth = [1.0, *(WORTH + n * LONGER for n in range(2, min(count, MOST_PRODUCTS) + 1))]
    costs = [_batched(product, n) * factor for n, factor in enumerate(worth, start=1)]
    best: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    for n in range(1, count + 1):
        ends = enumerate(costs[:n], start=1)
        best.append(min((best[n - k][0] + cost, (*best[n - k][1], k)) for k, cost in ends))
    return best[count][1]


def _batched(product: Product, count: int) -> float:
    """What so many equal products take as one launch, without what launches cost: those of a graph overlap."""
    many = replace(product, batch=product.batch * count)
    return microseconds(choose(many)[0], many) - product.target.model.launch


@functools.cache
def split_depth(product: Product, loops: tuple[int, ...], grouped: bool = True) -> tuple[int, int]:
    """Which of the loops of so many steps that a product's depth is made of to cut, and in how many parts: 1 is none.

    Parts of several loops may fill the last round of processors better than those of the longest. Unless it can be
    `grouped`, there is no form for groups of warps, with which a whole product may be as fast.
    """
    model = product.target.model
    best, found = 0.95 * _shortest(product, grouped), (0, 1)
    for number, count in ((n, c) for n, loop in enumerate(loops) for c in _divisors(loop, MOST_PARTS)):
        piece = replace(product, batch=product.batch * count, depth=product.depth // count, finished=4, widest=4)
        results = 4 * count * product.batch * product.rows * product.columns
        joined = model.dependent_launch + results / model.l2_bytes
        taken = microseconds(choose(piece)[0], piece) + joined
        if piece.depth >= LEAST_DEPTH and taken < best:
            best, found = taken, (number, count)
    return found


def split_parts(loop: int, reduced: int, kept: int, beside: bool) -> int:
    """In how many parts to cut a reduction of `reduced` elements to each of `kept` by cutting a loop.

    `beside` says that elements beside each other in memory are kept apart, as in column sums.
    """
    sms, programs = gpu_target().sms, -(-kept // COLUMNS) if beside else kept
    enough, least, whole = (2 * sms, 64, 1024) if beside else (sms, 4096, 16384)
    if programs >= enough or kept * reduced < LEAST_WORK or reduced < whole:
        return 1
    most = min(EACH * sms // programs, reduced // least)
    return max(_divisors(loop, most), default=1)


def _divisors(number: int, most: int) -> list[int]:
    return [n for n in range(2, min(number, most) + 1) if number % n == 0]
