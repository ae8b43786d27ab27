"""Element-wise functions of f32 against their references in f64: relative errors near zeros, poles and both ends.

`test_kernels.py` has stricter limits for the functions that others are made of.
"""

from typing import Any

import numpy as np
import pytest
from samples import SAMPLES

import oneflow as flow
from oneflow.dialect.dtypes import float32
from oneflow.dialect.numpy_builder import run_reference
from oneflow.dialect.record import REGISTRY, Call, attribute_values

#: The error of a function in units in the last place of the result.
LIMIT = 4
EPSILON = 2.0**-24
#: Functions whose terms cancel, or whose exponential multiplies an error: the absolute error at x.
ABSOLUTE = {
    "gelu": lambda x, y: 8 * EPSILON * np.abs(x),
    "fast_gelu": lambda x, y: 8 * EPSILON * np.abs(x),
    "quick_gelu": lambda x, y: 4 * EPSILON * (1 + np.abs(x)) * np.abs(y),
}
#: Zeros, poles and bends.
POINTS = (0, 0.5, 1, 2, -1, -2, 1.4616321, -2.4570247, -2.7476826, -0.504083, -3.1435809, 3.1415927, 1.5707964, -3, 3)
MIN_SUBNORMAL = 2.0**-149


def functions():
    """The functions of one tensor, with attributes."""
    found: dict[Any, Any] = {}
    for sample in SAMPLES:
        record = REGISTRY[sample.op]
        if record.family in ("unary", "special") and len(record.signature.inputs) == 1 and float32 in sample.dtypes:
            found.setdefault(sample.op, sample.attributes(float32))
    return found


FUNCTIONS = functions()


def numbers():
    """Numbers of every magnitude, the neighbours of `POINTS`, and numbers at all distances from these."""
    rng, f32 = np.random.default_rng(0), np.float32
    powers = np.concatenate([2.0 ** np.arange(-149, 128) * m for m in (1, 1.3, 1.9)])
    steps = np.arange(-40, 41)
    near = [f32(p) + np.spacing(f32(max(abs(p), 1e-3))) * steps for p in POINTS]
    around = [p + rng.uniform(-1, 1, 100) * 10.0**-k for p in POINTS for k in range(1, 6)]
    found = np.concatenate([powers, -powers, np.linspace(-100, 100, 4001), np.linspace(-8, 8, 4001), *near, *around])
    with np.errstate(over="ignore"):
        found = found.astype(f32)
    return found[np.isfinite(found)]


def wrong(name, x, got, want):
    """The mask of results that are off by more than the limit, and by more than 64 times the least number of the
    type.
    """
    with np.errstate(all="ignore"):
        narrow = want.astype(np.float32)
        units = np.spacing(np.abs(narrow)).astype(np.float64)
    allowed = ABSOLUTE.get(name, lambda x, y: LIMIT * units)(x.astype(np.float64), want)
    allowed = np.maximum(allowed, 64 * MIN_SUBNORMAL)
    special = ~np.isfinite(narrow)
    same = np.where(special, (got == narrow) | (np.isnan(got) & np.isnan(narrow)), True)
    with np.errstate(all="ignore"):
        return ~same | (~special & ~(np.abs(got - want) <= allowed))


GROUPS = [sorted(FUNCTIONS)[k : k + 12] for k in range(0, len(FUNCTIONS), 12)]


@pytest.mark.parametrize("names", GROUPS, ids=lambda names: f"{names[0]} to {names[-1]}")
def test_results_are_close_to_f64(names):
    x = numbers()
    run = flow.compile(lambda x: tuple(getattr(flow.ops, name)(x, **FUNCTIONS[name]) for name in names))
    for name, result in zip(names, run(x), strict=True):
        record = REGISTRY[name]
        inputs = {record.signature.inputs[0].name: x.astype(np.float64)}
        want = np.asarray(run_reference(Call(record, inputs, attribute_values(record, FUNCTIONS[name])))[0])
        got = np.asarray(result).astype(np.float64)
        if np.asarray(result).dtype != np.float32:
            np.testing.assert_array_equal(got, want, err_msg=name)
            continue
        bad = wrong(name, x, got, want)
        assert not bad.any(), f"{name}({x[bad][0]!r}): expected {want[bad][0]!r}, got {got[bad][0]!r}"
