"""The operators that accept 8-bit floats: operators whose meaning only moves and converts elements.

No record names these types. A body that computes with an 8-bit float cannot be built, see `dialect.scalar`; a
decomposition has to consist of operators that accept 8-bit floats.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from oneflow.dialect.composite import ComposedTypes
from oneflow.dialect.meaning import build_stages, input_stages
from oneflow.dialect.record import Call, OperatorError
from oneflow.dialect.scalar import BodyError
from oneflow.dialect.tensor_desc import TensorDesc


def expect_moved(op: Call, results: Sequence[TensorDesc]) -> None:
    """Refuses a call with 8-bit floats of an operator that does more than move and convert elements.

    Raises:
        OperatorError: the operator computes with such elements, or has a kernel for elements of other types.
    """
    if _moves(op, results):
        return
    narrow = next(d for d in (*op.operands, *results) if d.dtype.is_stored_only)
    raise op.error(f"expected a type that is computed with, got {narrow}: convert it, to f32 for example")


def _moves(op: Call, results: Sequence[TensorDesc]) -> bool:
    """Whether the meaning only moves and converts elements; collectives between ranks have no meaning."""
    record = op.record
    plain = {k: tuple(map(_plain, v)) if isinstance(v, tuple) else v and _plain(v) for k, v in op.inputs.items()}
    call = Call(record, plain, op.attrs)
    try:
        if record.decompose is not None:
            ComposedTypes(record.decompose)(call)
        elif record.scalar is not None or record.compute is not None:
            with contextlib.suppress(OperatorError):
                build_stages(input_stages(call), [_plain(r) for r in results])
    except (BodyError, OperatorError):
        return False
    return record.kernel is None and record.meaning != "parts"


def _plain(desc: TensorDesc) -> TensorDesc:
    """The description with sizes that are numbers or unknown; rules may run on symbols for unknown sizes."""
    if desc.shape is None:
        return desc
    return TensorDesc(tuple(size if isinstance(size, int) else None for size in desc.shape), desc.dtype)
