"""Rules written for known sizes, run on calls whose sizes are partly unknown.

C++ functions see numbers only. A rule is therefore run with several numbers in place of the unknown ones; what it
says each time is true, what changes is unknown. Numbers that the operator refuses are left out. Imports `dialect`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TypeVar

from oneflow.dialect.external import map_operands
from oneflow.dialect.record import Call, OperatorError, distribute, infer
from oneflow.dialect.tensor_desc import TensorDesc

R = TypeVar("R")
_SIZES = (2, 3, 5, 16, 1021)


def run_for_sizes(op: Call, rule: Callable[[Call], R]) -> list[R]:
    """What `rule` says of `op` with numbers for unknown sizes: all equal, and all different.

    Raises:
        OperatorError: it refuses the call whatever the sizes are, or needs static shapes to tell.
    """
    descs = [*op.operands, *op.results]
    if all(d.is_static for d in descs):
        return [rule(op)]
    found, refusal = [], ""
    known = {d for desc in descs for d in desc.shape if d is not None}
    for size, step in itertools.product([*_SIZES, *sorted(known - {0, 1, *_SIZES})], (0, 1)):
        try:
            found.append(rule(_filled(op, itertools.count(size, step))))
        except OperatorError as error:
            refusal = str(error)
    if len(found) < 2:
        raise op.error(f"needs static shapes: with sizes in place of the dynamic ones, {refusal}")
    return found


def _filled(op: Call, sizes: Iterator[int]) -> Call:
    def fill(desc: TensorDesc) -> TensorDesc:
        return TensorDesc(tuple(next(sizes) if d is None else d for d in desc.shape or ()), desc.dtype)

    call = Call(op.record, map_operands(op.inputs, fill), op.attrs)
    if op.outputs:
        call.outputs = distribute(op.record.signature.outputs, list(infer(op.record, call)), None)
    return call


def common_desc(descs: tuple[TensorDesc, ...], op: Call) -> TensorDesc:
    """What is true of all descriptions of one result.

    Raises:
        OperatorError: the rank or the data type changes with the sizes.
    """
    shapes = [d.shape or () for d in descs]
    if len({(len(s), d.dtype) for s, d in zip(shapes, descs, strict=True)}) > 1:
        raise op.error("needs static shapes: the rank or data type of a result depends on the sizes")
    return TensorDesc(tuple(a[0] if len(set(a)) == 1 else None for a in zip(*shapes, strict=True)), descs[0].dtype)
