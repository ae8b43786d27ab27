"""References accept NaN, infinities and empty tensors: random programs contain all three."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from samples import SAMPLES

from oneflow.dialect.numpy_builder import describe_array, run_reference
from oneflow.dialect.numpy_kernel import DataError
from oneflow.dialect.record import REGISTRY, OperatorError
from oneflow.testing import checks
from oneflow.testing.sample import T

#: The errors with which an operator refuses values of operands.
ERRORS_OF_VALUES = (IndexError, np.linalg.LinAlgError, DataError)


def sample_by_operator():
    """A sample of each operator, with a float type if the operator has a float type."""
    found: dict[Any, Any] = {}
    for sample in SAMPLES:
        floats = [d for d in sample.dtypes if d.is_float]
        if floats or sample.op not in found:
            found[sample.op] = found.get(sample.op) or (sample, (floats or sample.dtypes)[0])
    return found


ONE_EACH = sample_by_operator()


def check(op):
    """A call that the operator's type rule accepts has a reference, whose results have the types of the rule."""
    try:
        described = checks.described(op).results
        results = run_reference(op)
    except (OperatorError, *ERRORS_OF_VALUES):
        return
    assert [describe_array(np.asarray(x)) for x in results] == described


def mapped(operands, change):
    """Operands with `change(T)` in place of each."""
    if isinstance(operands, (list, tuple)):
        return [mapped(o, change) for o in operands]
    return None if operands is None else change(operands)


def emptied(is_emptied):
    """A change of operands: the axes for which `is_emptied(axis, size, rank)` holds have size 0."""

    def change(of):
        shape = tuple(0 if is_emptied(i, d, len(of.shape)) else d for i, d in enumerate(of.shape))
        values = None if of.values is None else np.zeros(shape, np.asarray(of.values).dtype)
        return of if shape == of.shape else T(shape, of.low, of.high, of.dtype, values)

    return change


def sizes(operands):
    """All sizes of operands."""
    found = set()
    mapped(operands, lambda of: found.update(of.shape))
    return sorted(found)


@pytest.mark.parametrize("name", ONE_EACH)
def test_nan_and_infinities(name):
    sample, dtype = ONE_EACH[name]
    for seed in range(3):
        check(checks.edge_case(sample, dtype, seed))


@pytest.mark.parametrize("name", ONE_EACH)
def test_empty_tensors(name):
    sample, dtype = ONE_EACH[name]
    rules = [lambda i, d, rank, size=size: d == size for size in sizes(sample.operands)]
    rules += [lambda i, d, rank, axis=axis: i in (axis, rank + axis) for axis in (0, 1, -1)]
    for rule in rules:
        empty = dataclasses.replace(sample, operands=mapped(sample.operands, emptied(rule)))
        try:
            op = checks.make_case(empty, dtype, REGISTRY)
        except ValueError:  # the sample's values do not fit the shape
            continue
        check(op)
