"""Resampling along one dimension: the elements and weights for each position of an image in another size.

Position t of the result is at (t * `step` + `shift`) / `unit` of the image, three integers. Positions and weights are
therefore exact, and the gradient computes the positions that read an element without a search.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

from oneflow.dialect import compute as c
from oneflow.dialect import scalar as s
from oneflow.dialect.compute import Size
from oneflow.dialect.dtypes import DType
from oneflow.dialect.scalar import Expr

#: The parameter of Keys' cubic convolution.
SHARPNESS = -0.75


@dataclass(frozen=True)
class Nearest:
    """Nearest-neighbour resampling of a dimension of `size` elements to `out`; the module's text has the formula."""

    size: Size
    out: Size
    step: Size
    shift: Size
    unit: Size

    #: Whether positions lie between elements, so that `align_corners` applies.
    has_corners: ClassVar[bool] = False

    def neighbours(self, position: Expr, dtype: DType) -> list[tuple[Expr, Expr | None]]:
        """The elements that a position reads, each with its weight (None: all)."""
        return [(s.minimum(position * self.step // self.unit, c.as_expr(self.size) - 1), None)]

    def max_positions(self) -> Size:
        """The most positions that read an element."""
        unit, step = self._numbers()
        count: Size = (unit + (step - 1)) // step
        return count

    def _numbers(self) -> tuple[Any, Any]:
        """`unit` and `step`, which is 0 for a single element: then 1."""
        return self.unit, c.max_size(self.step, 1)

    def begin(self, element: Expr) -> Expr:
        """The first position that reads an element."""
        return (element * self.unit + (self.step - 1)) // self.step

    def weight(self, element: Expr, position: Expr, dtype: DType) -> Expr:
        """The weight of an element in a position."""
        ((nearest, _),) = self.neighbours(position, dtype)
        return s.cast(nearest.eq(element), dtype)


class NearestExact(Nearest):
    """Nearest-neighbour resampling by the element that contains the centre of a result (nearest-exact)."""

    def neighbours(self, position: Expr, dtype: DType) -> list[tuple[Expr, Expr | None]]:
        """The elements that a position reads, each with its weight (None: all)."""
        return [(s.minimum((position * self.step + self.shift) // self.unit, c.as_expr(self.size) - 1), None)]

    def begin(self, element: Expr) -> Expr:
        """The first position that reads an element."""
        return s.maximum(element * self.unit + (self.step - 1) - self.shift, 0) // self.step


class Linear(Nearest):
    """Linear interpolation of the two neighbours of a position."""

    has_corners = True

    def _place(self, position: Expr) -> Expr:
        """The position times `unit`."""
        last = (c.as_expr(self.size) - 1) * self.unit
        return s.minimum(s.maximum(position * self.step + self.shift, 0), last)

    def _ratio(self, rest: Expr, dtype: DType) -> Expr:
        return s.cast(rest, dtype) / s.cast(c.as_expr(self.unit), dtype)

    def neighbours(self, position: Expr, dtype: DType) -> list[tuple[Expr, Expr | None]]:
        """The elements that a position reads, each with its weight."""
        place = self._place(position)
        low = place // self.unit
        above = self._ratio(place - low * self.unit, dtype)
        return [(low, 1.0 - above), (s.minimum(low + 1, c.as_expr(self.size) - 1), above)]

    def max_positions(self) -> Size:
        """The most positions that read an element."""
        unit, step = self._numbers()
        return c.min_size((unit * 2 + (step - 1)) // step, self.out)

    def begin(self, element: Expr) -> Expr:
        """The first position that reads an element."""
        unit, step = self._numbers()
        value: Expr = s.maximum((element - 1) * unit + (step - self.shift), 0) // step
        return value

    def weight(self, element: Expr, position: Expr, dtype: DType) -> Expr:
        """The weight of an element in a position."""
        return self._ratio(s.maximum(self.unit - abs(self._place(position) - element * self.unit), 0), dtype)


class Cubic(Linear):
    """Cubic interpolation of four neighbours (Keys' cubic convolution); the outermost elements repeat."""

    def neighbours(self, position: Expr, dtype: DType) -> list[tuple[Expr, Expr | None]]:
        """The elements that a position reads, each with its weight."""
        return [*self._neighbours(position, dtype)]

    def _neighbours(self, position: Expr, dtype: DType) -> list[tuple[Expr, Expr]]:
        """Four elements, of which elements outside are replaced by the outermost elements, and their neighbours."""
        place = position * self.step + self.shift + self.unit  # no longer negative, one element further
        low = place // self.unit
        above = self._ratio(place - low * self.unit, dtype)
        last = c.as_expr(self.size) - 1
        distances = (above + 1.0, above, 1.0 - above, 2.0 - above)
        elements = [s.minimum(s.maximum(low + (index - 2), 0), last) for index in range(4)]
        return [(e, keys(d, index in (1, 2))) for index, (e, d) in enumerate(zip(elements, distances, strict=True))]

    def max_positions(self) -> Size:
        """The most positions that read an element."""
        unit, step = self._numbers()
        return c.min_size((unit * 4 + (step - 1)) // step, self.out)

    def begin(self, element: Expr) -> Expr:
        """The first position that reads an element."""
        unit, step = self._numbers()
        value: Expr = s.maximum((element - 2) * unit + (step - 1) - self.shift, 0) // step
        return value

    def weight(self, element: Expr, position: Expr, dtype: DType) -> Expr:
        """The weight of an element in a position; at the border several neighbours are one element."""
        parts = (s.where(e.eq(element), share, 0.0) for e, share in self._neighbours(position, dtype))
        return reduce(operator.add, parts)


def keys(distance: Any, is_near: bool) -> Any:
    """The weight of an element at a distance of up to 1, or from 1 to 2."""
    a, d = SHARPNESS, distance
    return ((a + 2) * d - (a + 3)) * d * d + 1.0 if is_near else ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
