"""Which blocks, warps and stages a product is given: a small space, and what each choice is expected to take.

    choose(Product(1, 4096, 4096, 4096, 2, True))[0]   the best by the model; the rest follow in order

The model counts rounds of tiles over the processors, with a measured rate for each form. Imports nothing of the
project.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

#: Processors of the card that the table was measured on, the bytes of shared memory of a program there, and how many
#: of those the compiler needs for itself.
PROCESSORS = 132
SHARED, RESERVED = 232448, 1024


@dataclass(frozen=True)
class Product:
    """A product: its sizes, the bytes of an operand's element, whether blocks can be read by descriptors.

    A `gathered` one has an operand, such as the images of a convolution, whose elements are read one by one. `shared`
    says for each operand how many of its elements are one in memory, as where windows overlap. Both operands of one
    that lies `along` the depth have it as their last dimension.
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


@dataclass(frozen=True)
class Config:
    """A way to compute a product, and what was measured of it.

    `rate` is the speed of a full processor (1: a usual library's), `start` the microseconds around a tile's steps,
    `alone` by how much steps are slower where one program has a processor, of which `resident` fit on one. The result
    is finished in `slices` of columns; where `described`, blocks are read by descriptors. Those that add `apart` keep
    a sum for each element of a step's depth, and add these at the end.
    """

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    rate: float
    start: float
    alone: float
    resident: int
    slices: int = 1
    described: bool = False
    apart: bool = False


# fmt: off
#: 16-bit operands: by descriptors, and by pointers.
DESCRIBED = (
    Config(128, 256, 64, 8, 4, 1.20, 2.16, 1.6, 1, slices=2, described=True),
    Config(64, 256, 64, 4, 4, 1.04, 1.35, 1.3, 1, slices=2, described=True),
    Config(128, 128, 64, 4, 4, 1.02, 1.21, 1.5, 1, slices=2, described=True),
    Config(64, 128, 128, 4, 4, 0.70, 0.40, 1.5, 1, described=True),
    Config(64, 64, 128, 4, 5, 0.72, 0.97, 2.3, 1, described=True),
)
NARROW = (
    Config(128, 256, 64, 8, 3, 1.13, 3.40, 1.0, 1),
    Config(128, 128, 64, 8, 3, 0.78, 0.60, 1.2, 2),
    Config(64, 128, 64, 4, 4, 0.60, 0.26, 1.7, 2),
    Config(64, 64, 64, 4, 4, 0.50, 0.25, 2.6, 3),
    Config(32, 64, 128, 4, 4, 0.24, 0.48, 1.7, 2),
    Config(16, 64, 128, 4, 5, 0.15, 0.31, 2.1, 2),
    Config(64, 32, 128, 4, 4, 0.28, 0.40, 1.8, 2),
    Config(64, 16, 128, 4, 5, 0.15, 0.45, 2.0, 2),
    Config(16, 16, 128, 4, 4, 0.06, 1.16, 2.7, 5),
)
#: f32 operands, by the units of plain arithmetic.
SINGLE = (
    Config(64, 64, 16, 4, 4, 0.76, 0.36, 1.6, 4),
    Config(128, 64, 16, 4, 4, 0.73, 0.95, 1.3, 2),
    Config(32, 32, 32, 4, 4, 0.53, 0.21, 2.2, 4),
    Config(16, 32, 64, 4, 3, 0.37, 0.82, 1.8, 4),
    Config(16, 16, 64, 4, 3, 0.26, 0.95, 1.9, 6),
)
#: The same where both lie along the depth.
ALONG = (
    Config(8, 32, 32, 2, 3, 0.44, 0.50, 5.0, 8, apart=True),
    Config(8, 32, 64, 4, 3, 0.38, 0.35, 3.8, 4, apart=True),
    Config(16, 16, 64, 4, 3, 0.35, 0.35, 4.2, 4, apart=True),
    Config(8, 16, 64, 4, 3, 0.22, 0.38, 5.2, 6, apart=True),
    Config(8, 8, 64, 2, 3, 0.21, 0.20, 10.0, 8, apart=True),
)
# fmt: on
#: Multiplications and additions of a processor in a microsecond at rate 1, by width of the operands.
SPEED = {2: 2.85e6, 4: 0.20e6}
#: How many times as long a step takes whose operands are gathered.
GATHERED = 8
#: Microseconds of a launch without and with descriptors, and of a byte between memory and processors.
LAUNCH, DESCRIBE, BYTE = 5.0, 2.0, 4.2e-7
#: Most parts of a product's depth and the least depth of one; programs a processor for other reductions, the columns
#: of one, and the elements below which one processor is enough.
MOST_PARTS, LEAST_DEPTH = 64, 256
EACH, COLUMNS, LEAST_WORK = 8, 64, 1 << 17


def choose(product: Product) -> list[Config]:
    """The space for a product, the best by the model first."""
    single = ALONG if product.along else SINGLE
    space = single if product.width == 4 else (*(DESCRIBED if product.described else ()), *NARROW)
    least = min(c.rows for c in space), min(c.columns for c in space)
    fitting = [c for c in space if c.rows <= max(_block(product.rows), least[0])
               and c.columns <= max(_block(product.columns), least[1])]  # fmt: skip
    fitted = dict.fromkeys(replace(c, depth=min(c.depth, _block(product.depth))) for c in fitting)
    return sorted(fitted, key=lambda c: microseconds(c, product))


def _block(size: int) -> int:
    """The smallest block that takes a size; blocks have at least 16."""
    return max(16, 1 << (size - 1).bit_length())


def microseconds(config: Config, product: Product) -> float:
    """What the model expects a product to take: rounds of tiles over the processors, or the time to read it."""
    tiles = product.batch * -(-product.rows // config.rows) * -(-product.columns // config.columns)
    steps, each = -(-product.depth // config.depth), tiles / PROCESSORS
    work = steps * config.rows * config.columns * config.depth / SPEED[product.width]
    work *= GATHERED if product.gathered else 1
    resident = 1 if config.described and each > 1 else config.resident
    if resident == 1:
        taken = math.ceil(each) * (work / config.rate + config.start)
    else:
        alone = math.ceil(each / resident) * (work * config.alone + config.start)
        taken = max(alone, math.ceil(each) * work / config.rate)
    left, right = product.shared
    moved = product.depth * (product.rows / left + product.columns / right) + product.rows * product.columns
    launch = LAUNCH + (DESCRIBE if config.described else 0)
    read = product.batch * product.width * moved * BYTE
    return launch + max(taken, read) + 0.1 * min(taken, read)


def shares(loops: Iterable[int | None], elements: int | None) -> float:
    """How many elements of an operand are one in memory, from the sizes of its loops; 1 if that is unknown."""
    known = [size or 0 for size in loops]
    return max(1.0, math.prod(known) / elements) if elements else 1.0


@functools.cache
def split_depth(product: Product, loop: int) -> int:
    """In how many parts to cut a product's depth, by cutting a loop of `loop` steps; 1 leaves it whole."""
    best, parts = 0.95 * microseconds(choose(product)[0], product), 1
    for count in _divisors(loop, MOST_PARTS):
        piece = replace(product, batch=product.batch * count, depth=product.depth // count)
        joined = LAUNCH + 8 * count * product.batch * product.rows * product.columns * BYTE
        taken = microseconds(choose(piece)[0], piece) + joined
        if piece.depth >= LEAST_DEPTH and taken < best:
            best, parts = taken, count
    return parts


def split_parts(loop: int, reduced: int, kept: int, beside: bool) -> int:
    """In how many parts to cut a reduction of `reduced` elements to each of `kept` by cutting a loop.

    `beside` says that elements beside each other in memory are kept apart, as in column sums.
    """
    programs = -(-kept // COLUMNS) if beside else kept
    enough, least = (2 * PROCESSORS, 64) if beside else (PROCESSORS, 4096)
    if programs >= enough or kept * reduced < LEAST_WORK or reduced < 4 * least:
        return 1
    most = min(EACH * PROCESSORS // programs, reduced // least)
    return max(_divisors(loop, most), default=1)


def _divisors(number: int, most: int) -> list[int]:
    return [n for n in range(2, min(number, most) + 1) if number % n == 0]
