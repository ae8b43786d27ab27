"""Gradients of element-wise operators where differences say nothing: bends, ties, zeros, overflow."""

from math import e, inf, log, nan
from typing import Any

import numpy as np
import pytest
from samples.unary import CURVES, SHAPED

from oneflow.dialect import ops  # noqa: F401
from oneflow.dialect.numpy_builder import NumpyBuilder
from oneflow.dialect.record import REGISTRY, Call, attribute_values
from oneflow.testing.gradients import gradient_arrays

#: Operator, attributes, operand, slope; the slopes are PyTorch's.
AT_EDGES = [
    ("relu", {}, [-1.0, -0.0, 0.0, 1.0, nan], [0, 0, 0, 1, 1]),
    ("abs", {}, [-1.0, -0.0, 0.0, 1.0], [-1, 0, 0, 1]),
    ("sign", {}, [-1.0, 0.0, 1.0], [0, 0, 0]),
    ("floor", {}, [0.0, 0.5], [0, 0]),
    ("sqrt", {}, [0.0, 4.0], [inf, 0.25]),
    ("reciprocal_no_nan", {}, [0.0, 2.0], [0, -0.25]),
    ("leaky_relu", {"alpha": 0.25}, [-1.0, 0.0, 1.0], [0.25, 0.25, 1]),
    ("elu", {"alpha": 2.0}, [0.0, 1e4, -1e4], [2, 1, 0]),
    ("celu", {"alpha": 2.0}, [0.0, 1e4, -1e4], [1, 1, 0]),
    ("hardtanh", {"min_val": -1.0, "max_val": 1.0}, [-1.0, 0.0, 1.0], [0, 1, 0]),
    ("hardsigmoid", {}, [-3.0, 0.0, 3.0], [0, 1 / 6, 0]),
    ("hardshrink", {"lambd": 0.5}, [-0.5, 0.0, 0.5, 0.75], [0, 0, 0, 1]),
    ("softshrink", {"alpha": 0.5}, [-0.5, 0.0, 0.5, 0.75], [0, 0, 0, 1]),
    ("threshold", {"threshold_val": 1.0, "value": 5.0}, [0.5, 1.0, 1.5], [0, 0, 1]),
    ("clip_by_scalar", {"floating_min": -1.0, "floating_max": 1.0}, [-2.0, -1.0, 0.0, 1.0, 2.0], [0, 1, 1, 1, 0]),
    ("clip_by_scalar_min", {"floating_min": 0.0}, [-1.0, 0.0, 1.0], [0, 1, 1]),
    ("clip_by_scalar_max", {"floating_max": 0.0}, [-1.0, 0.0, 1.0], [1, 1, 0]),
    ("sigmoid", {}, [-1e4, 0.0, 1e4], [0, 0.25, 0]),
    ("softplus", {"beta": 1.0, "threshold": 20.0}, [-1e4, 0.0, 1e4], [0, 0.5, 1]),
    ("scalar_pow", {"has_float_operand": True, "float_operand": 0.0}, [0.0, 2.0], [0, 0]),
    ("scalar_pow", {"has_float_operand": True, "float_operand": 1.0}, [0.0, 2.0], [1, 1]),
    ("scalar_pow", {"has_float_operand": True, "float_operand": 0.5}, [0.0, 4.0], [inf, 0.25]),
    ("scalar_reverse_pow", {"has_float_operand": True, "float_operand": 0.0}, [0.0, 2.0], [0, 0]),
]
#: Operator, operands, the slope of each.
OF_PAIRS = [
    ("broadcast_maximum", [1.0, 1.0, 2.0], [1.0, 2.0, 1.0], [0.5, 0, 1], [0.5, 1, 0]),
    ("broadcast_minimum", [1.0, 1.0, 2.0], [1.0, 2.0, 1.0], [0.5, 1, 0], [0.5, 0, 1]),
    ("broadcast_pow", [0.0, 0.0, 0.0, e], [0.0, 1.0, 2.0, 1.0], [0, 1, 0, 1], [0, 0, 0, e]),
    ("broadcast_fmod", [5.0, -5.0], [3.0, 3.0], [1, 1], [-1, 1]),
    ("broadcast_floor_mod", [5.0, -5.0], [3.0, 3.0], [1, 1], [-1, 2]),
    ("floordiv", [5.0, 0.0], [3.0, 1.0], [0, 0], [0, 0]),
    ("atan2", [0.0, 0.0], [0.0, 1.0], [0, 1], [0, 0]),
    ("xlogy", [0.0, 0.0, 2.0], [0.0, e, e], [0, 1, 1], [0, 0, 2 / e]),
    ("broadcast_div", [1.0], [0.5], [2], [-4]),
]


def _slopes(name, operands, attrs, cotangent=1.0, dtype=np.float64):
    record = REGISTRY[name]
    arrays = [np.asarray(x, dtype) for x in operands]
    inputs = {a.name: x for a, x in zip(record.signature.inputs, arrays, strict=True)}
    with np.errstate(all="ignore"):
        found = gradient_arrays(
            Call(record, inputs, attribute_values(record, attrs)), [np.full(arrays[0].shape, cotangent)]
        )
    return list(found.values())


@pytest.mark.parametrize("name,attrs,x,slope", AT_EDGES)
def test_derivatives_at_edges(name, attrs, x, slope):
    np.testing.assert_allclose(_slopes(name, [x], attrs)[0], slope, rtol=1e-12)


@pytest.mark.parametrize("name,x,y,dx,dy", OF_PAIRS)
def test_derivatives_by_both_operands(name, x, y, dx, dy):
    got = _slopes(name, [x, y], {})
    np.testing.assert_allclose(got[0], dx, rtol=1e-12)
    np.testing.assert_allclose(got[1], dy, rtol=1e-12)


def test_pow_of_a_negative_base_has_no_derivative_by_its_exponent():
    by_base, by_exponent = _slopes("broadcast_pow", [[-2.0], [2.0]], {})
    np.testing.assert_array_equal(by_base, [-4.0])
    assert np.isnan(by_exponent).all()


@pytest.mark.parametrize("name,attrs", [*((n, {}) for n in CURVES if n not in ("cosh", "sinh", "tan")), *SHAPED])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_operands_give_no_nan(name, attrs, dtype):
    if name in ("exp", "exp2", "expm1"):
        points = [-1e4, -100.0, 0.0, 1.0]
    else:
        points = [-1e4, -100.0, 0.0, 100.0, 1e4]
    assert np.isfinite(_slopes(name, [points], attrs, dtype=dtype)[0]).all()


@pytest.mark.parametrize("chosen,slopes", [(True, (2.0, 0.0)), (False, (0.0, 2.0))])
def test_where_gives_zero_gradient_to_the_unselected_operand(chosen, slopes):
    record = REGISTRY["where"]
    inputs = {"condition": np.array([chosen]), "x": np.array([nan]), "y": np.array([inf])}
    got = gradient_arrays(Call(record, inputs, {}), [np.array([2.0])])
    assert (got["x"][0], got["y"][0]) == slopes


def test_an_infinite_cotangent_stays_masked():
    assert _slopes("relu", [[-1.0]], {}, cotangent=inf)[0] == 0.0
    record = REGISTRY["masked_fill"]
    inputs = {"x": np.array([1.0, 1.0]), "mask": np.array([True, False])}
    attrs = attribute_values(record, {"has_float_operand": True, "float_operand": -inf})
    np.testing.assert_array_equal(
        gradient_arrays(Call(record, inputs, attrs), [np.array([inf, 3.0])])["x"], [0.0, 3.0]
    )


def test_gradients_do_not_mix_up_nodes_of_different_calls():
    """A gradient that is computed late uses the operands of the call."""
    builder = NumpyBuilder()
    record: Any = REGISTRY["broadcast_sub"]
    dy = builder.wrap(np.array([3.0]))
    later = []
    for number in range(50):
        x, y = builder.wrap(np.array([float(number)])), builder.wrap(np.array([log(number + 2)]))
        later.append(record.grad(builder, Call(record, {"x": x, "y": y}, {}), dy)["y"])
    assert all(gradient().handle == [-3.0] for gradient in later)
