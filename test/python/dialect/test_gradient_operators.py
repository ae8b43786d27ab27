"""Gradient slots that read results agree with the gradients of the decompositions, for each result's cotangent alone.

`test_gradient` gives all results a cotangent at once, so that gradients of one result by an operator are not asked
for there.
"""

import numpy as np
import pytest
from samples import SAMPLES

from oneflow.dialect.builder import Value
from oneflow.dialect.composed import composed_gradient
from oneflow.dialect.dtypes import float64
from oneflow.dialect.numpy_builder import NumpyBuilder, run_reference
from oneflow.dialect.record import REGISTRY, Call, distribute, flatten
from oneflow.testing.checks import make_case

#: Gradients that hold a result constant: what they are is checked by `test_the_weight_of_ciou_is_a_constant`.
CONSTANT = {"fused_get_ciou_result"}


def _is_checked(sample):
    record = REGISTRY[sample.op]
    own = callable(record.grad) and record.grad is not composed_gradient
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
def test_one_cotangent(name):
    sample = FIRST[name]
    results = run_reference(make_case(sample, float64, REGISTRY))
    for number, result in enumerate(results):
        if np.asarray(result).dtype.kind != "f":
            continue
        got, want = (gradients(slot, sample, number) for slot in (REGISTRY[name].grad, composed_gradient))
        for operand, wanted in want.items():
            found = got.get(operand) or [np.zeros_like(w) for w in wanted]
            for a, b in zip(found, wanted, strict=False):
                np.testing.assert_allclose(a, b, 1e-9, 1e-9, err_msg=f"{sample}: {operand} from result {number}")


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
