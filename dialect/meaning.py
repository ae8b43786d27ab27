"""Element-wise bodies as compute stages: the scalar slot is the compute slot of one element at a time.

The interface of backends to records: `stages(op)` gives the result stages of any call whose record has a scalar or a
compute slot.
"""

from __future__ import annotations

from collections.abc import Sequence

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.compute import Size, Stage
from oneflow.dialect.elementwise import scalar_body
from oneflow.dialect.record import Call
from oneflow.dialect.scalar import Expr
from oneflow.dialect.tensor_desc import TensorDesc


def stages(op: Call, results: Sequence[TensorDesc]) -> list[Stage]:
    """The result stages of a call whose operands are `Stage`s; `results` are the inferred types.

    Raises:
        OperatorError: the body uses an expression that the algebra does not have.
    """
    try:
        return build_stages(op, results)
    except s.BodyError as error:
        raise op.error(f"its slot {op.record.meaning} ({op.record.where}): {error}") from None


def build_stages(op: Call, results: Sequence[TensorDesc]) -> list[Stage]:
    """`stages`, with the error of the algebra.

    Raises:
        BodyError: the body uses an expression that the algebra does not have.
    """
    record = op.record
    if record.scalar is not None:
        return [_elementwise_stage(op, results[0])]
    assert record.compute is not None, f"{record.name} has to be decomposed first"
    computed = record.compute(op)
    stages = [computed] if isinstance(computed, Stage) else list(computed)
    if [(s.dtype, s.rank) for s in stages] != [(r.dtype, r.rank) for r in results]:
        described = ", ".join(f"{s.dtype.mlir} of rank {s.rank}" for s in stages)
        raise op.error(f"expected {', '.join(map(str, results))} from its slot compute, got {described}")
    return stages


def _elementwise_stage(op: Call, result: TensorDesc) -> Stage:
    assert result.shape is not None, "unranked result"
    shape = tuple(_size(d, i, op.operands, result.rank) for i, d in enumerate(result.shape))

    def body(*position: Expr) -> Expr:
        return scalar_body(op, [read_broadcast(x, position) for x in op.operands])

    return c.element_wise(shape, body, result.dtype)


def _size(dim: int | None, axis: int, operands: Sequence[Stage], rank: int) -> Size:
    """The size of a result dimension: known, or the size of the operand which is not broadcast along it."""
    if dim is not None:
        return dim
    candidates = [x.shape[axis - (rank - x.rank)] for x in operands if axis >= rank - x.rank]
    return next(size for size in candidates if size != 1)


def read_broadcast(x: Stage, position: Sequence[Expr]) -> Expr:
    """The element of `x` that broadcasting puts at `position`."""
    lead = len(position) - x.rank
    own = tuple(0 if size == 1 else position[lead + i] for i, size in enumerate(x.shape))
    return x[own] if own else x[()]


def scalar_formula(op: Call) -> str:
    """The scalar body of a call on `TensorDesc`s as text."""
    nodes = [s.arg(i, d.dtype.accumulator) for i, d in enumerate(op.operands)]
    return s.format_expr(scalar_body(op, nodes))


def input_stages(op: Call) -> Call:
    """`op`, whose operands are `TensorDesc`s, with `Input` stages for operands.

    A dynamic dimension becomes a `size` expression with the value (operand, dimension).
    """
    operand_indices = iter(range(len(op.operands)))

    def stage(desc: TensorDesc) -> c.Input:
        operand = next(operand_indices)
        assert desc.shape is not None, "unranked operand"
        sizes = (Expr("size", (), dtypes.index, (operand, i)) if d is None else d for i, d in enumerate(desc.shape))
        return c.Input(tuple(sizes), desc.dtype, operand)

    inputs = {k: tuple(map(stage, v)) if isinstance(v, tuple) else v and stage(v) for k, v in op.inputs.items()}
    return Call(op.record, inputs, op.attrs)
