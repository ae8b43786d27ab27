"""Arithmetic on shapes that may hold unknown dimensions.

Sizes are ints or None (`?`); a result is None exactly where the size cannot be decided.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType
from oneflow.dialect.record import Call, ElementTypeError, OperatorError
from oneflow.dialect.tensor_desc import Dim, Shape, TensorDesc, count, format_shape


def broadcast_dims(a: Dim, b: Dim) -> Dim:
    """The size of two broadcast dimensions; ValueError where the sizes are incompatible.

    An unknown size has to equal a known one other than 1; two unknown sizes have to be equal.
    """
    if a == 1:
        return b
    if b == 1 or a == b:
        return a
    if a is None or b is None:
        return a if b is None else b
    raise ValueError(f"{a} and {b}")


def broadcast_shapes(op: Call, shapes: Sequence[Shape]) -> Shape:
    """The common shape of operands aligned at their last dimensions, as NumPy broadcasts.

    Raises:
        OperatorError: the shapes are incompatible.
    """
    rank = max((len(s) for s in shapes), default=0)
    result: list[Dim] = [1] * rank
    for shape in shapes:
        for i, dim in enumerate(shape, rank - len(shape)):
            try:
                result[i] = broadcast_dims(result[i], dim)
            except ValueError:
                texts = ", ".join(format_shape(s) or "scalar" for s in shapes)
                raise op.error(f"expected operands that broadcast, got shapes {texts}") from None
    return tuple(result)


def same_dtype(op: Call, descs: Sequence[TensorDesc]) -> None:
    """Checks that operands have one element type.

    Raises:
        OperatorError: the shapes differ.
    """
    for desc in descs[1:]:
        if desc.dtype != descs[0].dtype:
            text = f"expected operands of one data type, got {descs[0].dtype.mlir} and {desc.dtype.mlir}"
            raise op.error(text, ElementTypeError)


def class_of_mismatch(got: TensorDesc, wanted: TensorDesc) -> type[OperatorError]:
    """The class of the error for an operand of type `got`, where `wanted` is expected."""
    return ElementTypeError if got.dtype != wanted.dtype else OperatorError


def expect_dtype(op: Call, name: str, desc: TensorDesc, allowed: Sequence[object], only_real: bool = False) -> None:
    """Checks the element type of operand `name`.

    If an operator with a meaning on complex numbers (the slot `parts`) takes the types of their parts, it takes
    complex numbers too, unless `only_real`.

    Raises:
        OperatorError: the type is not one of `allowed`.
    """
    if desc.dtype in allowed:
        return
    has_complex = op.record.parts is not None and not only_real and all(d in allowed for d in dtypes.PARTS)
    complex_types = dtypes.COMPLEX if has_complex else ()
    if desc.dtype not in complex_types:
        wanted = ", ".join(d.mlir for d in (*allowed, *complex_types))
        raise op.error(f"expected {name} of type {wanted}, got {desc.dtype.mlir}", ElementTypeError)


def expect_rank(op: Call, name: str, desc: TensorDesc, min_rank: int, max_rank: int | None = None) -> None:
    """Checks the rank of operand `name`: at least `min_rank`, and at most `max_rank` (None: exactly `min_rank`, -1:
    any).

    Raises:
        OperatorError: the operand has another rank.
    """
    highest = min_rank if max_rank is None else max_rank
    if desc.rank < min_rank or (highest >= 0 and desc.rank > highest):
        ranks = f"{min_rank} to {highest}" if highest >= 0 else f"{min_rank} or more"
        wanted = str(min_rank) if highest == min_rank else ranks
        raise op.error(f"expected {name} of rank {wanted}, got {desc}")


def expect_pairs(op: Call, name: str, desc: TensorDesc) -> None:
    """Checks that an operand lists complex numbers as pairs of reals along its last axis.

    Raises:
        OperatorError: the last axis has another size than 2.
    """
    expect_rank(op, name, desc, 1, -1)
    if desc.shape is None or desc.shape[-1] != 2:
        raise op.error(f"expected a static size of 2 along the last axis of {name}, the two parts, got {desc}")


def expect_dim(op: Call, name: str, got: Dim, wanted: Dim) -> Dim:
    """Checks that two dimensions can be equal, and returns the known size of both.

    Raises:
        OperatorError: both are known and differ.
    """
    if got is not None and wanted is not None and got != wanted:
        raise op.error(f"expected {name} to be {wanted}, got {got}")
    return wanted if got is None else got


def expect_fill(op: Call, value: float, dtype: DType) -> None:
    """Checks that a value can fill a tensor of `dtype`: integers and bools accept finite values only.

    Raises:
        OperatorError: the value cannot fill the tensor.
    """
    if not dtype.is_inexact and not math.isfinite(value):
        raise op.error(f"expected a finite fill value for {dtype.mlir}, got {value}")


def solve_reshape(op: Call, source: Shape, target: Sequence[int]) -> Shape:
    """The result shape of a reshape; one -1 in `target` is solved from the element count.

    The size stays unknown while the count is: `?x4` to `(-1, 2)` is `?x2`, but `?x0` to `(-1, 2)` is `0x2`.

    Raises:
        OperatorError: counts differ, or more than one -1 is given.
    """
    if any(t < -1 for t in target) or list(target).count(-1) > 1:
        raise op.error(f"expected sizes of at least 0 and at most one -1 in shape, got {list(target)}")
    if -1 in target:
        return _solve_free(op, source, target)
    wanted = math.prod(target)
    if not _can_count(source, wanted):
        total = count(source)
        elements = f"{'a multiple of ' if total is None else ''}{known_count(source)} elements"
        raise op.error(f"expected a shape of {elements} for {format_shape(source)}, got {list(target)}")
    return tuple(target)


def _solve_free(op: Call, source: Shape, target: Sequence[int]) -> Shape:
    total, rest = count(source), math.prod(t for t in target if t != -1)
    if rest == 0 or (total is not None and total % rest):
        elements = "an unknown number of" if total is None else total
        raise op.error(f"expected a size for -1 in shape {list(target)}, got {elements} elements, which fit no size")
    return tuple((None if total is None else total // rest) if t == -1 else t for t in target)


def _can_count(source: Shape, wanted: int) -> bool:
    """Whether `source`, with freely chosen unknown sizes, can have `wanted` elements."""
    known = known_count(source)
    if None not in source:
        return known == wanted
    return wanted % known == 0 if known else wanted == 0


def known_count(shape: Sequence[Dim]) -> int:
    """The product of the known dimensions."""
    return math.prod(d for d in shape if d is not None)


def solve_like(op: Call, source: Shape, like: Shape) -> Shape:
    """The shape `like`, its one unknown dimension solved from the elements of `source`.

    Raises:
        OperatorError: the shapes cannot have the same number of elements.
    """
    total, known = count(source), known_count(like)
    fits = _can_count(like, total) if total is not None else None in like or _can_count(source, known)
    if not fits:
        raise op.error(
            f"expected like of as many elements as in, got {format_shape(source)} and {format_shape(like)}"
        )
    if like.count(None) != 1 or total is None or not known:
        return like
    return tuple(total // known if d is None else d for d in like)


def paired_axes(source: Shape, target: Shape) -> list[tuple[int, int]]:
    """Axes (of source, of target) that a reshape preserves, without axes of size 1.

    Two axes correspond where two of these are known to agree: the elements before them, their sizes, the
    elements after them; the third then agrees too, dynamic dimensions included.
    """

    def agree(i: int, j: int) -> bool:
        pairs = [(source[:i], target[:j]), ((source[i],), (target[j],)), (source[i + 1 :], target[j + 1 :])]
        same = [count(a) == count(b) for a, b in pairs if count(a) and count(b)]
        return len(same) > 1 and all(same)

    candidates = [(i, j) for i, d in enumerate(source) for j, e in enumerate(target) if d != 1 and e != 1]
    return [(i, j) for i, j in candidates if agree(i, j)]


def leading_axes(source: Shape, target: Shape) -> list[tuple[int, int, int]]:
    """Axes (of source, of target) that begin joined or divided axes of a reshape, and into how many equal blocks both
    can be cut so that these hold the same elements: numbers that divide the one given. Axes of dynamic shapes are
        left out.
    """
    if None in source or None in target or 0 in source:
        return []
    axes = []
    for i, d in enumerate(source):
        for j, e in enumerate(target):
            assert d is not None and e is not None
            together = math.gcd(d, e)
            if d != e and together > 1 and count(source[:i]) == count(target[:j]):
                axes.append((i, j, together))
    return axes


def is_identity(source: Shape, target: Shape) -> bool:
    """Whether a reshape between these shapes, of equal element counts, is known to change nothing."""
    if source != target or source.count(None) > 1:
        return False
    return None not in source or known_count(source) != 0


def letters(shape: Shape, unsplit: Sequence[int] = (), letter: str = "d") -> list[str]:
    """SBP factors of a shape, one per axis; axes of size 1 and axes in `unsplit` are not split."""
    return ["_" if d == 1 or i in unsplit else f"{letter}{i}" for i, d in enumerate(shape)]


def as_target(shape: Shape) -> tuple[int, ...]:
    """A shape as sizes of a `shape` attribute: -1 for unknown sizes."""
    return tuple(-1 if d is None else d for d in shape)


def aligned_axes(rank: int, reduced: Sequence[int], small: int) -> list[int]:
    """For each of the `small` dimensions of the smaller tensor, the corresponding dimension of the larger tensor.

    The aligned axes are the dimensions that are not `reduced`, where counts agree, else the last dimensions, like
    NumPy's broadcasting.
    """
    kept = [i for i in range(rank) if i not in reduced]
    return kept if len(kept) == small else list(range(rank - small, rank))
