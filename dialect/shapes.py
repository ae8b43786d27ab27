"""Arithmetic on shapes that may hold unknown dimensions.

Sizes are ints or None (`?`); a result is None exactly where it cannot be decided. Imports `record` for errors.
"""

from __future__ import annotations

from collections.abc import Sequence

from oneflow.dialect.record import Call
from oneflow.dialect.tensor_desc import Dim, Shape, TensorDesc, count, format_shape


def broadcast_dims(a: Dim, b: Dim) -> Dim:
    """The size of two broadcast dimensions; ValueError where they do not fit.

    An unknown size beside a known one other than 1 has to equal it; two unknown sizes have to be equal.
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
        OperatorError: they do not fit.
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
        OperatorError: they differ.
    """
    for desc in descs[1:]:
        if desc.dtype != descs[0].dtype:
            raise op.error(f"expected operands of one data type, got {descs[0].dtype} and {desc.dtype}")


def expect_dtype(op: Call, name: str, desc: TensorDesc, allowed: Sequence[object]) -> None:
    """Checks the element type of operand `name`.

    Raises:
        OperatorError: it is not one of `allowed`.
    """
    if desc.dtype not in allowed:
        raise op.error(f"expected {name} of type {', '.join(map(str, allowed))}, got {desc.dtype}")


def expect_rank(op: Call, name: str, desc: TensorDesc, least: int, most: int | None = None) -> None:
    """Checks the rank of operand `name`: at least `least`, and at most `most` (None: exactly `least`, -1: any).

    Raises:
        OperatorError: the rank is outside.
    """
    top = least if most is None else most
    if desc.rank < least or (top >= 0 and desc.rank > top):
        wanted = str(least) if top == least else f"{least} to {top}" if top >= 0 else f"{least} or more"
        raise op.error(f"expected {name} of rank {wanted}, got {desc}")


def expect_dim(op: Call, name: str, got: Dim, wanted: Dim) -> Dim:
    """Checks that two dimensions can be equal, and gives what is known of both.

    Raises:
        OperatorError: both are known and differ.
    """
    if got is not None and wanted is not None and got != wanted:
        raise op.error(f"expected {name} to be {wanted}, got {got}")
    return wanted if got is None else got


def solve_reshape(op: Call, source: Shape, target: Sequence[int]) -> Shape:
    """The result shape of a reshape; one -1 in `target` is solved from the element count.

    With dynamic dimensions the -1 is solved where they cancel: `?x4` to `(-1, 2)` is `?x2`.

    Raises:
        OperatorError: counts differ, or more than one -1 is given.
    """
    if any(t < -1 for t in target) or list(target).count(-1) > 1:
        raise op.error(f"expected sizes of at least 0 and at most one -1 in shape, got {list(target)}")
    total = count(source)
    if -1 not in target:
        wanted = count(target)
        if total is not None and total != wanted:
            raise op.error(f"expected a shape of {total} elements for {format_shape(source)}, got {list(target)}")
        return tuple(target)
    rest = count([t for t in target if t != -1])
    if total is None:
        return tuple(None if t == -1 else t for t in target)
    if not rest or total % rest:
        raise op.error(f"cannot solve -1 in shape {list(target)} for {total} elements")
    return tuple(total // rest if t == -1 else t for t in target)


def dims_of(sizes: Sequence[object]) -> Shape:
    """Sizes of compute stages as dimensions: expressions become None."""
    return tuple(s if isinstance(s, int) else None for s in sizes)
