"""Rules written for static sizes, applied to calls with dynamic sizes.

C++ functions take static sizes only. A rule therefore runs with several values of each dynamic size. Result sizes
that are equal in all runs are static, the others are dynamic. Sizes that the operator refuses are skipped.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TypeVar

from oneflow.dialect.external import map_operands
from oneflow.dialect.record import Call, OperatorError, distribute, infer
from oneflow.dialect.tensor_desc import Shape, TensorDesc

R = TypeVar("R")
_SIZES = (2, 3, 5, 16, 1021)
#: Chooses a size for a dynamic axis of a shape.
SizeCandidate = Callable[[Shape, int], int]


def run_for_sizes(op: Call, rule: Callable[[Call], R]) -> list[R]:
    """The results of `rule` on `op` with static sizes in place of dynamic sizes, for every choice that the operator
    accepts.

    Raises:
        OperatorError: the operator refuses all choices.
    """
    shapes = [d.shape or () for d in (*op.operands, *op.results)]
    if not any(None in shape for shape in shapes):
        return [rule(op)]
    answers, refusal = [], ""
    for choose in _size_candidates(shapes):
        try:
            answers.append(rule(_filled(op, choose)))
        except OperatorError as error:
            refusal = str(error)
    if not answers:
        raise op.error(f"needs static shapes: with sizes in place of the dynamic ones, {refusal}")
    return answers


def _size_candidates(shapes: list[Shape]) -> Iterator[SizeCandidate]:
    """Candidates: all dynamic sizes equal, all different, and the size of other operands along the same axis."""
    known = {d for shape in shapes for d in shape if d is not None}
    for size in (*_SIZES, *sorted(known - {0, 1, *_SIZES})):
        different = itertools.count(size)
        yield lambda shape, axis, size=size: size  # type: ignore[misc]
        yield lambda shape, axis, different=different: next(different)  # type: ignore[misc]
        yield lambda shape, axis, size=size: _aligned(shapes, shape, axis) or size  # type: ignore[misc]


def _aligned(shapes: list[Shape], shape: Shape, axis: int) -> int | None:
    """The static size along an axis of another shape of the same rank."""
    alike = (s[axis] for s in shapes if len(s) == len(shape))
    return next((size for size in alike if size is not None), None)


def _filled(op: Call, choose: SizeCandidate) -> Call:
    def fill(desc: TensorDesc) -> TensorDesc:
        shape = desc.shape or ()
        return TensorDesc(tuple(choose(shape, i) if d is None else d for i, d in enumerate(shape)), desc.dtype)

    call = Call(op.record, map_operands(op.inputs, fill), op.attrs)
    if op.outputs:
        call.outputs = distribute(op.record.signature.outputs, list(infer(op.record, call)), None)
    return call


def common_desc(descs: tuple[TensorDesc, ...], op: Call) -> TensorDesc:
    """The common description of one result: sizes that differ are dynamic.

    Raises:
        OperatorError: the rank or the data type depends on the sizes.
    """
    shapes = [d.shape or () for d in descs]
    if len({(len(s), d.dtype) for s, d in zip(shapes, descs, strict=True)}) > 1:
        raise op.error("needs static shapes: the rank or data type of a result depends on the sizes")
    return TensorDesc(tuple(a[0] if len(set(a)) == 1 else None for a in zip(*shapes, strict=True)), descs[0].dtype)
