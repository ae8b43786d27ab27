"""Symbolic sizes and strides: integer polynomials over the names of a kernel's parameters.

Size.of(4) * Size.of("p0_1") + Size.of(2)      text: "p0_1 * 4 + 2"
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Monomial = tuple[str, ...]


@dataclass(frozen=True)
class Size:
    """A polynomial: each monomial (its sorted names) with a coefficient that is not 0."""

    terms: tuple[tuple[Monomial, int], ...] = ()

    @staticmethod
    def of(value: int | str) -> Size:
        """A number or a name as a size."""
        if isinstance(value, str):
            return Size((((value,), 1),))
        return Size((((), value),)) if value else Size()

    @property
    def static(self) -> int | None:
        """The number; None where the size has names."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    def __add__(self, other: Size) -> Size:
        if (one := self.static) is not None and (two := other.static) is not None:
            return Size.of(one + two)
        return _collect((*self.terms, *other.terms))

    def __mul__(self, other: Size) -> Size:
        if (one := self.static) is not None and (two := other.static) is not None:
            return Size.of(one * two)
        return _collect((tuple(sorted((*a, *b))), x * y) for a, x in self.terms for b, y in other.terms)

    def renamed(self, names: Mapping[str, Size]) -> Size:
        """The size with sizes substituted for names."""
        if self.static is not None:
            return self
        total = Size()
        for monomial, factor in self.terms:
            total = total + product([Size.of(factor), *(names.get(n, Size.of(n)) for n in monomial)])
        return total

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
    found: dict[Monomial, int] = {}
    for monomial, factor in terms:
        found[monomial] = found.get(monomial, 0) + factor
    return Size(tuple(sorted((m, f) for m, f in found.items() if f)))


def _monomial_text(monomial: Monomial, factor: int) -> str:
    return " * ".join([*monomial, *([str(factor)] if factor != 1 or not monomial else [])])


def power_of_two(size: int) -> int:
    """The smallest power of two that is at least `size`."""
    return 1 << max(size - 1, 0).bit_length()


#: Ends of loops from here on are i64: the position one step beyond the end has to fit too.
WIDE_RANGE = 1 << 30


def range_text(begin: int, end: int | Size, more: str) -> str:
    """The text of `range` from `begin` to `end`; `more` is the text of further arguments.

    Triton types an end of at least 2^31 as unsigned but sign-extends it; such ends are i64.
    """
    wide = not isinstance(end, Size) and end >= WIDE_RANGE
    return f"range({begin}, {f'tl.full((), {end}, tl.int64)' if wide else end}{more})"
