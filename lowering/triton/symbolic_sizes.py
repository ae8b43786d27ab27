"""Symbolic sizes and strides: integer polynomials over the names of a kernel's parameters; numbers of tiles.

Size.of(4) * Size.of("p0_1") + Size.of(2)      text: "p0_1 * 4 + 2"
TileCount.of(Size.of("p0_1"), 64)              text: "((p0_1 + 63) // 64)"
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Monomial = tuple[str, ...]


@dataclass(frozen=True)
class Size:
    """A polynomial: each monomial (its sorted names) with a coefficient that is not 0."""

    terms: tuple[tuple[Monomial, int], ...] = ()

    @staticmethod
    def of(value: int | str) -> Size:
        """A constant or a name as a size."""
        if isinstance(value, str):
            return Size((((value,), 1),))
        return Size((((), value),)) if value else Size()

    @property
    def static(self) -> int | None:
        """The constant; None where the size has names."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    def __add__(self, other: Size) -> Size:
        if (a := self.static) is not None and (b := other.static) is not None:
            return Size.of(a + b)
        return _collect((*self.terms, *other.terms))

    def __mul__(self, other: Size) -> Size:
        if (a := self.static) is not None and (b := other.static) is not None:
            return Size.of(a * b)
        return _collect((tuple(sorted((*a, *b))), x * y) for a, x in self.terms for b, y in other.terms)

    def renamed(self, names: Mapping[str, Size]) -> Size:
        """The size with sizes substituted for names."""
        if self.static is not None:
            return self
        total = Size()
        for monomial, factor in self.terms:
            total = total + product([Size.of(factor), *(names.get(n, Size.of(n)) for n in monomial)])
        return total

    def value(self, arguments: Mapping[str, int]) -> int:
        """The size for the values `arguments` of the names."""
        return sum(factor * math.prod(arguments[n] for n in monomial) for monomial, factor in self.terms)

    def __str__(self) -> str:
        return " + ".join(_monomial_text(m, f) for m, f in self.terms) or "0"

    @property
    def factor(self) -> str:
        """The text as a factor of a product."""
        return f"({self})" if len(self.terms) > 1 else str(self)

    @property
    def atom(self) -> str:
        """The text as an operand of any operator."""
        return f"({self})" if " " in str(self) else str(self)


def product(sizes: Iterable[Size]) -> Size:
    """The product of sizes; 1 for none."""
    total = Size.of(1)
    for size in sizes:
        total = total * size
    return total


def _collect(terms: Iterable[tuple[Monomial, int]]) -> Size:
    factors: dict[Monomial, int] = {}
    for monomial, factor in terms:
        factors[monomial] = factors.get(monomial, 0) + factor
    return Size(tuple(sorted((m, f) for m, f in factors.items() if f)))


def _monomial_text(monomial: Monomial, factor: int) -> str:
    return " * ".join([*monomial, *([str(factor)] if factor != 1 or not monomial else [])])


def cdiv(a: int, b: int) -> int:
    """a / b rounded up."""
    return -(-a // b)


@dataclass(frozen=True)
class TileCount:
    """A number of tiles, or of programs: a product of quotients that are rounded up.

    A factor has the size along an axis and the size of a tile along that axis.
    """

    factors: tuple[tuple[Size, int], ...]

    @staticmethod
    def of(size: Size | int, tile: int = 1) -> TileCount:
        """The number of tiles of `tile` elements that cover `size` elements."""
        size = Size.of(size) if isinstance(size, int) else size
        return TileCount(((size, tile),) if size.static is None else ((Size.of(cdiv(size.static, tile)), 1),))

    @property
    def static(self) -> int | None:
        """The count as an int; None where it depends on dynamic sizes."""
        sizes = [size.static for size, _ in self.factors]
        return None if None in sizes else math.prod(n or 0 for n in sizes)

    def value(self, arguments: Mapping[str, int]) -> int:
        """The count for the values `arguments` of the names."""
        return math.prod(cdiv(size.value(arguments), tile) for size, tile in self.factors)

    def __mul__(self, other: TileCount) -> TileCount:
        if (a := self.static) is not None and (b := other.static) is not None:
            return TileCount.of(a * b)
        return TileCount((*self.factors, *other.factors))

    def __str__(self) -> str:
        static = self.static
        return str(static) if static is not None else " * ".join(_quotient_text(*factor) for factor in self.factors)

    def to_plain(self) -> Any:
        """The count as plain data: a number, or the terms of each size with the size of a tile."""
        static = self.static
        return static if static is not None else [[_plain_terms(size), tile] for size, tile in self.factors]

    @staticmethod
    def from_plain(data: Any) -> TileCount:
        """The count that `to_plain` described."""
        if isinstance(data, int):
            return TileCount.of(data)
        return TileCount(tuple((Size(tuple((tuple(m), n) for m, n in terms)), tile) for terms, tile in data))


def _quotient_text(size: Size, tile: int) -> str:
    """The text of a rounded quotient as a factor of a product."""
    return f"(({size} + {tile - 1}) // {tile})" if tile > 1 else size.factor


def _plain_terms(size: Size) -> list[Any]:
    return [[list(monomial), factor] for monomial, factor in size.terms]


def power_of_two(size: int) -> int:
    """The smallest power of two that is at least `size`."""
    return 1 << max(size - 1, 0).bit_length()


#: Ends of loops from here on are i64: the position one step beyond the end has to fit too.
WIDE_RANGE = 1 << 30


def range_text(begin: int, end: int | Size, arguments: str) -> str:
    """The text of `range` from `begin` to `end`; `arguments` is the text of further arguments.

    Triton types an end of at least 2^31 as unsigned but sign-extends it; such ends are i64.
    """
    wide = not isinstance(end, Size) and end >= WIDE_RANGE
    return f"range({begin}, {f'tl.full((), {end}, tl.int64)' if wide else end}{arguments})"
