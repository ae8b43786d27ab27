"""Every sample through the linalg stage, in every element type, against its reference."""

import numpy as np
import pytest
from linalg_runner import Runner
from samples import SAMPLES

from oneflow.dialect import oneflow as dialect
from oneflow.dialect import ops  # noqa: F401
from oneflow.dialect._mlir import func, ir
from oneflow.dialect.ir_builder import IRBuilder
from oneflow.dialect.numpy_builder import run_reference
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.record import REGISTRY, Call, OperatorError, flatten, infer
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.lowering.linalg.convert import ConvertOneflowToLinalg
from oneflow.passes.decompose import Decompose
from oneflow.testing.checks import assert_close, described, make_call

CASES = [(s, d) for s in SAMPLES for d in s.dtypes]
OPERATORS = {s.op: [(t, d) for t, d in CASES if t.op == s.op] for s in SAMPLES}
PARAMS = [pytest.param(s, d, id=f"{s}-{d}") for s, d in CASES]


@pytest.fixture(scope="module")
def context():
    return create_context()


@pytest.fixture(scope="module")
def compiled(context):
    """One module per operator, a function per sample and type, compiled when first asked for."""
    done = {}

    def get(name, loosen):
        if (name, loosen) not in done:
            with context, ir.Location.unknown():
                module = ir.Module.create()
                for number, (sample, dtype) in enumerate(OPERATORS[name]):
                    add_function(module, f"case{number}", described(call_of(sample, dtype)), loosen)
                done[name, loosen] = lower(module)
        return done[name, loosen]

    return get


def call_of(sample, dtype):
    return make_call(sample, sample.arrays(dtype), sample.attributes(dtype), REGISTRY)


def lower(module):
    Decompose().run(module, REGISTRY)
    ConvertOneflowToLinalg().run(module, REGISTRY)
    assert module.operation.verify()
    left = []
    dialect.walk(module.operation, left.append)
    assert not left
    return Runner(module)


def static(desc):
    return desc


def dynamic(desc):
    """Every dimension unknown but those of 1, which broadcasting has to see."""
    return TensorDesc(tuple(1 if d == 1 else None for d in desc.shape), desc.dtype)


def add_function(module, name, call, loosen=static):
    """A function that makes the call on its arguments and returns its results.

    Arguments have the types `loosen` gives, or their own where the operator wants them static.
    """
    loose = [loosen(d) for d in call.operands]
    try:
        results = infer(call.record, regrouped(call, loose))
    except OperatorError:
        loose, results = call.operands, call.results
    types = tuple([d.to_mlir() for d in descs] for descs in (loose, results))
    with ir.InsertionPoint(module.body):
        block = func.FuncOp(name, types).add_entry_block()
    with ir.InsertionPoint(block):
        operands = regrouped(call, block.arguments).inputs.values()
        values = IRBuilder(REGISTRY).call(call.record.name, *operands, **call.attrs)
        func.ReturnOp([v.handle for v in values])


def regrouped(call, values):
    """The call with other operands, given flat."""
    rest = iter(values)
    inputs = {
        k: tuple(next(rest) for _ in x) if isinstance(x, tuple) else None if x is None else next(rest)
        for k, x in call.inputs.items()
    }
    return Call(call.record, inputs, call.attrs)


def check(runner, sample, dtype):
    op = call_of(sample, dtype)
    got = runner.run(f"case{OPERATORS[sample.op].index((sample, dtype))}", flatten(op.inputs.values()))
    assert not runner.failures
    for number, (result, want) in enumerate(zip(got, run_reference(op), strict=True)):
        signed = result.view(np.uint8) if want.dtype == np.uint8 else result
        assert_close(signed, np.asarray(want), sample.tolerance(dtype), f"{sample} {dtype} result {number}")


@pytest.mark.parametrize("sample,dtype", PARAMS)
def test_sample(sample, dtype, compiled):
    check(compiled(sample.op, static), sample, dtype)


@pytest.mark.parametrize("sample,dtype", [pytest.param(s, s.dtypes[0], id=str(s)) for s in SAMPLES])
def test_sample_with_dynamic_dimensions(sample, dtype, compiled):
    check(compiled(sample.op, dynamic), sample, dtype)
