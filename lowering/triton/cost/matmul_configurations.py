"""Which blocks, warps and stages a product is given: a small space, and what each choice is expected to take.

    choose(Product(1, 4096, 4096, 4096, 2, True))[0]   the best by the model; the rest follow in order

The model counts rounds of tiles over the processors. A step of a tile takes as long as arithmetic, loads and what
stages leave of their latency take together; stages and what a tile is finished with share a processor's memory. Its
constants are those that met 1500 times best on an H100, of 72 shapes and up to 40 ways each, measured with a cold
cache; rates of large tiles, and what results and memory take, those that meet 180 times of 16-bit operands on an H200
best, of 25 shapes: within 5%, and what is chosen is as a rule the fastest way (`python benchmarks/gpu.py --groups
matmul` has the shapes).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

#: Processors of the card that was measured; a processor's bytes of shared memory, those that a program can have, and
#: how many of these the compiler needs for itself; a processor's registers.
PROCESSORS = 132
MEMORY, SHARED, RESERVED = 233472, 232448, 1024
REGISTERS = 65536


@dataclass(frozen=True)
class Product:
    """A product: its sizes, the bytes of an operand's element, whether blocks can be read by descriptors.

    A `gathered` one has an operand, such as the images of a convolution, whose elements are read one by one. `shared`
    says for each operand how many of its elements are one in memory, as where windows overlap. Both operands of one
    that lies `along` the depth have it as their last dimension. An element of the result and those it is combined
    with have `finished` bytes, the widest of them `widest`; it takes so many `operations` to finish.
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
        return self.described and beside + self.finishing(product.finished) <= SHARED - RESERVED

    def fitted(self, product: Product) -> Config:
        """It with as many stages as there is memory for beside what a tile is finished with."""
        if not self.stays:
            return self
        held = self.finishing(product.finished if self.is_direct(product) else product.widest)
        return replace(self, stages=min(self.stages, (SHARED - RESERVED - held) // self.stage(product)))


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
#: By width of the operands: multiplications and additions of a processor in a microsecond, and the warps that it
#: takes to keep it busy.
SPEED, BUSY = {2: 5.26e6, 4: 0.20e6}, {2: 4, 4: 6}
#: Operations on single elements of a processor in a microsecond, with which a result is finished: of 80 times of
#: products of GPT-2 small in a graph, what is chosen was the fastest or up to 4% behind it.
OPERATE = 1.6e5
#: Bytes in a microsecond: of operands to one processor and to all, of results from one that does nothing else and
#: from one that reads the next tile's operands meanwhile (by descriptors, by pointers), between memory and all.
LOAD, LOADS, FINISH, STORE, SCATTER, MOVE = 4.98e5, 1.855e7, 4.1e4, 1.6e5, 1.2e5, 5.0e6
#: Microseconds until the first block is there; those of a load; of a launch, and of one that follows another and
#: reads its result in the cache at so many bytes in each.
START, LATENCY, LAUNCH, FOLLOW, NEAR = 0.98, 0.72, 4.0, 3.0, 5.2e6
#: How many times as long a step takes whose operands are gathered, and loads of elements that are not aligned.
GATHERED, SINGLY = 8, 18
#: The bytes of a line of the cache, and how many times as long loads take where the rows of a block begin within
#: lines, so that each is in two.
LINE, UNEVEN = 128, 2.8
#: How sharp the largest of several times is the time of all, the part of a tile's beginning and end that other
#: programs of the processor do not fill, and the part of the smaller of a product's two times, to compute it and to
#: move it, that adds to the larger.
SHARP, BARE, BESIDE = 3.1, 0.68, 0.60
#: What each group of warps takes longer: it begins late and finishes its part of the last tile alone. How many times
#: as long operations on single elements take in groups that have a tile together.
LAST, HEAVIER = 0.09, 2
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
    found = [c for c in sized if not c.stays or _tiles(c, product) > PROCESSORS]
    return sorted(found, key=lambda c: microseconds(c, product))


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
    finished = replace(product, operations=HEAVIER * product.operations)
    return microseconds(config, finished) + LAST * (config.warps // 4)


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
    """What the model expects a product to take: rounds of tiles over the processors, or the time to move it."""
    resident = _resident(config, product)
    rounds, rest = divmod(_tiles(config, product), PROCESSORS * resident)
    taken = rounds * _round(config, product, PROCESSORS * resident)
    taken += _round(config, product, rest) if rest else 0
    taken += START if config.stays else 0
    taken += _after(config, product) if config.turns else 0
    left, right = product.shared
    operands = (product.rows / left + product.columns / right) * product.depth * product.width
    moved = product.batch * (operands + product.rows * product.columns * product.finished) / MOVE
    return LAUNCH + max(taken, moved) + BESIDE * min(taken, moved)


def _resident(config: Config, product: Product) -> int:
    """How many programs a processor has at once."""
    if config.stays:
        return 1
    finishing = config.finishing(product.finished) if config.described else 0
    memory = max(config.stages * config.stage(product), finishing)
    kept = config.rows * config.columns * (config.depth if config.apart else 1)
    registers = min(kept // (32 * config.warps) + OTHERS, 255) * 32 * config.warps
    return max(1, min(MEMORY // (memory + RESERVED), REGISTERS // registers))


def _round(config: Config, product: Product, tiles: int) -> float:
    """What so many tiles take that are computed at once."""
    programs = -(-tiles // PROCESSORS)
    inner = -(-product.depth // config.depth) * _step(config, product, tiles)
    block = config.rows * config.columns
    if config.stays:
        after = _after(config, product)
        return max(inner, (inner + after) / 2) if config.turns else inner + after
    bare = BARE if programs > 1 else 1
    computed = bare * block * product.operations / OPERATE
    return inner + bare * (START + programs * block * product.finished / FINISH) + computed


def _after(config: Config, product: Product) -> float:
    """What a program that stays takes to finish a tile."""
    block = config.rows * config.columns
    result = block * product.finished / (STORE if config.is_direct(product) else SCATTER)
    return result + BARE * block * product.operations / OPERATE


def _step(config: Config, product: Product, tiles: int) -> float:
    """What a step of so many tiles takes; blocks of single elements are not read ahead."""
    programs = -(-tiles // PROCESSORS)
    block, busy = config.rows * config.columns * config.depth, BUSY[product.width]
    computed = programs * block / (SPEED[product.width] * config.rate) * busy / min(busy, programs * config.warps)
    computed *= GATHERED if product.gathered else 1
    sizes = product.rows, product.columns, product.depth
    single = product.width == 2 and any(n % 8 for n in sizes)
    read = config.stage(product) * max(programs * (SINGLY if single else 1) / LOAD, tiles / LOADS)
    read *= UNEVEN if not single and all(n * product.width % LINE for n in sizes) else 1
    if single:
        return _side_by_side(computed, read) + LATENCY / programs
    return _side_by_side(computed, read, LATENCY / max(config.fitted(product).stages - 1, 1))


def _side_by_side(*times: float) -> float:
    """The time of what runs side by side: little more than that of the longest."""
    longest = max(times)
    return float(longest * sum((t / longest) ** SHARP for t in times) ** (1 / SHARP))


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
    return microseconds(choose(many)[0], many) - LAUNCH


@functools.cache
def split_depth(product: Product, loops: tuple[int, ...], grouped: bool = True) -> tuple[int, int]:
    """Which of the loops of so many steps that a product's depth is made of to cut, and in how many parts: 1 is none.

    Parts of several loops may fill the last round of processors better than those of the longest. Unless it can be
    `grouped`, there is no form for groups of warps, with which a whole product may be as fast.
    """
    best, found = 0.95 * _shortest(product, grouped), (0, 1)
    for number, count in ((n, c) for n, loop in enumerate(loops) for c in _divisors(loop, MOST_PARTS)):
        piece = replace(product, batch=product.batch * count, depth=product.depth // count, finished=4, widest=4)
        joined = FOLLOW + 4 * count * product.batch * product.rows * product.columns / NEAR
        taken = microseconds(choose(piece)[0], piece) + joined
        if piece.depth >= LEAST_DEPTH and taken < best:
            best, found = taken, (number, count)
    return found


def split_parts(loop: int, reduced: int, kept: int, beside: bool) -> int:
    """In how many parts to cut a reduction of `reduced` elements to each of `kept` by cutting a loop.

    `beside` says that elements beside each other in memory are kept apart, as in column sums.
    """
    programs = -(-kept // COLUMNS) if beside else kept
    enough, least, whole = (2 * PROCESSORS, 64, 1024) if beside else (PROCESSORS, 4096, 16384)
    if programs >= enough or kept * reduced < LEAST_WORK or reduced < whole:
        return 1
    most = min(EACH * PROCESSORS // programs, reduced // least)
    return max(_divisors(loop, most), default=1)


def _divisors(number: int, most: int) -> list[int]:
    return [n for n in range(2, min(number, most) + 1) if number % n == 0]
