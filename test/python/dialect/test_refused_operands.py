"""Every operator, with one operand of its first sample changed, infers sound types or names itself in the error."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from samples import SAMPLES

from oneflow.dialect import (
    dtypes,
    ops,  # noqa: F401  (registers the operators)
)
from oneflow.dialect.record import REGISTRY, OperatorError
from oneflow.testing.checks import described, make_call
from oneflow.testing.sample import T

FIRST = {s.op: s for s in reversed(SAMPLES) if s.operands}
CHANGES: dict[str, Any] = {
    **{str(d): lambda x, d=d: replace(x, dtype=d, values=None) for d in dtypes.DTYPES},
    "rank + 1": lambda x: replace(x, shape=(*x.shape, 2), values=None),
    "rank - 1": lambda x: replace(x, shape=x.shape[:-1], values=None),
    "rank 0": lambda x: replace(x, shape=(), values=None),
}


def changed(operands, change):
    """The operands with each in turn, or the first of a repeated one, changed."""
    for i, operand in enumerate(operands):
        if isinstance(operand, T):
            yield [*operands[:i], change(operand), *operands[i + 1 :]]
        elif operand:
            yield [*operands[:i], [change(operand[0]), *operand[1:]], *operands[i + 1 :]]


def assert_sound(call):
    """Results have known element types and sizes that a tensor can have."""
    for result in call.results:
        assert result.dtype in dtypes.DTYPES
        assert all(isinstance(size, (int, np.integer)) and size >= 0 for size in result.shape), str(result)


@pytest.mark.parametrize("name", sorted(FIRST))
def test_changed_operands_are_refused_or_have_sound_results(name):
    sample = FIRST[name]
    dtype = sample.dtypes[0]
    for change in CHANGES.values():
        for operands in changed(list(sample.operands), change):
            other = replace(sample, operands=operands)
            try:
                call = described(make_call(other, other.arrays(dtype), other.attributes(dtype), REGISTRY))
            except OperatorError as error:
                assert str(error).startswith(f"oneflow.{name}: "), str(error)
            else:
                assert_sound(call)
