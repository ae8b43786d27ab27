"""Gradient slots that read results agree with the gradients of the decompositions, for each result's cotangent alone.

`test_gradient` gives all results a cotangent at once, and never requests the gradient
of one result by an operator.
"""

import numpy as np
import pytest
from samples import SAMPLES

from oneflow.dialect.builder import Value
from oneflow.dialect.decomposition_gradient import decomposition_gradient
from oneflow.dialect.dtypes import float64
from oneflow.dialect.numpy_builder import NumpyBuilder, run_reference
from oneflow.dialect.record import REGISTRY, Call, attribute_values, distribute, flatten
from oneflow.testing.checks import make_case

#: Gradients that hold a result constant: `test_the_weight_of_ciou_is_a_constant` checks the values.
CONSTANT = {"fused_get_ciou_result"}


def _is_checked(sample):
    record = REGISTRY[sample.op]
    own = callable(record.grad) and record.grad is not decomposition_gradient
    return own and record.decompose is not None and sample.op not in CONSTANT and sample.gradient


FIRST = {s.op: s for s in reversed(SAMPLES) if _is_checked(s)}


def gradients(slot, sample, number):
    """The gradients by a slot where the result `number` alone has a cotangent, by the names of operands."""
    op, ops = make_case(sample, float64, REGISTRY), NumpyBuilder()
    inputs = {n: tuple(map(ops.wrap, x)) if isinstance(x, tuple) else x if x is None else ops.wrap(x)
              for n, x in op.inputs.items()}  # fmt: skip
    results = list(map(ops.wrap, run_reference(op)))
    call = Call(op.record, inputs, op.attrs, distribute(op.record.signature.outputs, results, None))
    rng = np.random.default_rng(3)
    seed = ops.wrap(np.asarray(rng.uniform(-1, 1, results[number].shape)))
    found = slot(ops, call, *(seed if i == number else None for i in range(len(results))))
    values = {n: [g() if callable(g) else g for g in flatten([g])] for n, g in found.items() if inputs.get(n)}
    return {n: [g.handle for g in gs if isinstance(g, Value)] for n, gs in values.items() if n in inputs}


@pytest.mark.parametrize("name", sorted(FIRST))
def test_gradients_for_the_cotangent_of_each_result_alone(name):
    sample = FIRST[name]
    results = run_reference(make_case(sample, float64, REGISTRY))
    for index, result in enumerate(results):
        if np.asarray(result).dtype.kind != "f":
            continue
        got, want = (gradients(slot, sample, index) for slot in (REGISTRY[name].grad, decomposition_gradient))
        for operand, wanted in want.items():
            found = got.get(operand) or [np.zeros_like(w) for w in wanted]
            for a, b in zip(found, wanted, strict=False):
                np.testing.assert_allclose(a, b, 1e-9, 1e-9, err_msg=f"{sample}: {operand} from result {index}")


def test_the_weight_of_ciou_is_a_constant():
    """y is iou - rho2 / c2 - v * alpha for the alpha that v and iou give, and alpha gives no gradient."""
    sample = next(s for s in SAMPLES if s.op == "fused_get_ciou_result")
    op = make_case(sample, float64, REGISTRY)
    (_, alpha), (_, _, rho2, c2) = run_reference(op), op.inputs.values()
    seed = np.random.default_rng(3).uniform(-1, 1, alpha.shape)
    wanted = {"v": -alpha, "iou": np.ones_like(alpha), "rho2": -1 / c2, "c2": rho2 / c2**2}
    got = gradients(REGISTRY["fused_get_ciou_result"].grad, sample, 0)
    for name, slope in wanted.items():
        np.testing.assert_allclose(got[name][0], seed * slope, 1e-12, err_msg=name)
    assert not gradients(REGISTRY["fused_get_ciou_result"].grad, sample, 1)


def _values(ops, *shapes):
    """Random values as values of a builder; a list of shapes gives a list."""
    rng = np.random.default_rng(5)

    def make(shape):
        return list(map(make, shape)) if isinstance(shape, list) else ops.wrap(rng.uniform(-1, 1, shape))

    return [make(s) for s in shapes]


def _derived(ops, name, operands, attrs, seeds):
    """The gradients of a call by the decomposition, for cotangents of the first results, and the results."""
    record = REGISTRY[name]
    results = ops.call(name, *operands, **attrs)
    names = [arg.name for arg in record.signature.inputs]
    padded = [*operands, *[None] * (len(names) - len(operands))]
    inputs = {n: tuple(x) if isinstance(x, list) else x for n, x in zip(names, padded, strict=True)}
    call = Call(record, inputs, attribute_values(record, attrs))
    found = decomposition_gradient(ops, call, *seeds, *[None] * (len(results) - len(seeds)))
    return {n: [g().handle for g in flatten([gs]) if g is not None] for n, gs in found.items()}, results


def _assert_equal(got, wanted):
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a.handle, b, 1e-9, 1e-9)


LAYERS = ((8, 4), [(5, 4), (2, 5)], [(5,), (2,)])


def test_gradients_of_layers():
    """The operator of the gradients agrees with the derivative of the layers, dropout between layers included."""
    ops = NumpyBuilder()
    x, weights, biases, dy = _values(ops, *LAYERS, (8, 2))
    attrs = {"dropout_rate_list": [0.5, 0.75], "seed": 3}
    wanted, results = _derived(ops, "fused_matmul_bias_add_relu_dropout", [x, weights, biases], attrs, [dy])
    _, masks, hidden = results[0], results[1:3], results[3:]
    last = ops.fused_relu_dropout_grad(dy, masks[1], scale=4.0)
    dx, *others = ops.cublas_fused_mlp_grad(last, x, weights, masks, hidden, alpha_list=[2.0])
    _assert_equal([dx, *others[:2], *others[2:]], [*wanted["x"], *wanted["biases"], *wanted["weights"]])
    assert np.count_nonzero(dx.handle) > 0 and not results[0].handle.all()


def test_gradients_of_a_masked_layer():
    """The two operators of cuBLAS's names together are the gradients of two layers."""
    ops = NumpyBuilder()
    x, weights, biases, dy = _values(ops, *LAYERS, (8, 2))
    attrs = {"skip_final_activation": True}
    wanted, results = _derived(ops, "cublas_fused_mlp", [x, weights, biases], attrs, [dy])
    slope, bias = ops.cublas_bias_add_relu_matmul_grad(dy, weights[1], results[1])
    second, last = ops.cublas_matmul_bias_add_grad(dy, results[3])
    first, same = ops.cublas_matmul_bias_add_grad(slope, x)
    _assert_equal([bias, last, first, second], [*wanted["biases"], *wanted["weights"]])
    _assert_equal([same], wanted["biases"][:1])


@pytest.mark.parametrize("activation", ["none", "sigmoid", "relu", "gelu", "fast_gelu", "silu"])
@pytest.mark.parametrize("is_split", [True, False])
def test_gradients_of_a_gated_unit(activation, is_split):
    ops = NumpyBuilder()
    x, w, v, dy = _values(ops, (3, 2), (4, 2), (4, 2), (3, 4 if is_split else 2))
    operands, attrs = [x, w, None, *[v] * is_split], {"activation": activation, "is_split": is_split}
    wanted, (_, *products) = _derived(ops, "fused_glu", operands, attrs, [dy])
    slopes = ops.call("fused_glu_without_linear_grad", dy, *products, activation=activation)
    got = [ops.matmul(slope, x, transpose_a=True) for slope in slopes]
    _assert_equal(got, [*wanted["w"], *wanted.get("v", [])[: 1 * is_split]])


def test_gradients_of_batch_normalization_in_parts():
    """Two parts of a batch together give the normalization of the whole batch, and the gradient."""
    ops = NumpyBuilder()
    x, weight, bias, dy = _values(ops, (5, 3, 2), (3,), (3,), (5, 3, 2))
    attrs = {"axis": 1, "epsilon": 1e-5, "training": True}
    operands = [x, None, None, weight, bias]
    (y, mean, inv), parts = ops.call("normalization", *operands, **attrs), [(0, 2), (2, 3)]
    shards = [[ops.narrow(a, dim=0, start=s, length=n) for s, n in parts] for a in (x, dy)]
    statistics = [ops.call("batch_norm_stats", shard, axis=1, eps=1e-5) for shard in shards[0]]
    means, inverses = (ops.stack(list(s), axis=0) for s in zip(*statistics, strict=True))
    counts = ops.wrap(np.array([4.0, 6.0]))
    found = ops.call("batch_norm_gather_stats_with_counts", x, means, inverses, counts, eps=1e-5)
    _assert_equal(found, [mean.handle, inv.handle])
    outputs = [ops.batch_norm_elemt(p, weight, bias, *found, axis=1).handle for p in shards[0]]
    np.testing.assert_allclose(np.concatenate(outputs), y.handle, 1e-9, 1e-9)
    sums = [ops.call("batch_norm_backward_reduce", g, p, *found, axis=1) for p, g in zip(*shards, strict=True)]
    totals = [a + b for a, b in zip(*sums, strict=True)]
    numbers = ops.wrap(np.array([4, 6], np.int32))
    slopes = [
        ops.batch_norm_backward_elemt(g, p, *found, weight, totals[0], totals[1], numbers, axis=1).handle
        for p, g in zip(*shards, strict=True)
    ]
    by_weight, by_bias, by_x = ops.call("normalization_grad", x, dy, mean, inv, weight, axis=1, epsilon=1e-5)
    np.testing.assert_allclose(np.concatenate(slopes), by_x.handle, 1e-9, 1e-9)
    _assert_equal(totals[2:], [by_weight.handle, by_bias.handle])


@pytest.mark.parametrize("rate", [0.0, 0.5])
@pytest.mark.parametrize(
    ("is_causal", "left", "right"), [(False, -1, -1), (True, -1, -1), (True, 1, -1), (False, 0, 1)]
)
def test_gradients_of_flash_attention(rate, is_causal, left, right):
    """Query heads share key heads; the gradient of a key head is the sum over the query heads."""
    ops = NumpyBuilder()
    query, key, value, dy = _values(ops, (1, 4, 2, 3), (1, 5, 1, 3), (1, 5, 1, 3), (1, 4, 2, 3))
    attrs = {"softmax_scale": 0.5, "is_causal": is_causal, "window_size_left": left, "window_size_right": right}
    attrs["p_dropout"] = rate
    forward = {**attrs, "seed": 9}
    wanted, results = _derived(ops, "scaled_dot_product_flash_attention", [query, key, value], forward, [dy])
    got = ops.call("scaled_dot_product_flash_attention_grad", dy, query, key, value, *results, **attrs)
    _assert_equal(got[:1], wanted["query"])
    for slope, name in zip(got[1:], ("key", "value"), strict=True):
        np.testing.assert_allclose(slope.handle.sum(2, keepdims=True), wanted[name][0], 1e-9, 1e-9)
