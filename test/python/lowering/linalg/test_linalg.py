"""All samples at the linalg stage against their references.

An operator's first sample runs with all its element types, the others with one, and some with dynamic sizes;
$ONEFLOW_TEST_ALL runs all with all.
"""

from typing import Any

import numpy as np
import pytest
from call_counts import calls_of
from linalg_runner import Runner
from samples import EVERY, SAMPLES, SPREAD

from oneflow.dialect import oneflow as dialect
from oneflow.dialect import ops  # noqa: F401
from oneflow.dialect._mlir import func, ir
from oneflow.dialect.ir_builder import IRBuilder
from oneflow.dialect.numpy_builder import run_reference
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.dialect.record import REGISTRY, Call, OperatorError, flatten, infer
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.lowering.linalg.convert_oneflow_to_linalg import ConvertOneflowToLinalg
from oneflow.passes.base import PassError
from oneflow.passes.decompose import Decompose
from oneflow.testing.checks import assert_close, described, make_call


def call_of(sample, dtype):
    return make_call(sample, sample.arrays(dtype), sample.attributes(dtype), REGISTRY)


def is_lowered(sample):
    """Whether an operator calls neither an external kernel nor bodies."""
    record = REGISTRY[sample.op]
    return record.kernel is None and record.control is None and "external" not in record.traits


def is_real(sample, dtype):
    """Whether a call has no complex numbers, which are pairs at this stage."""
    call = described(call_of(sample, dtype))
    return not any(d.dtype.is_complex for d in (*call.operands, *call.results))


LOWERED = list(filter(is_lowered, SAMPLES))
FIRST = {s.op: s for s in reversed(LOWERED)}
#: The samples of each operator with the types of their runs, with static and with dynamic sizes.
STATIC, DYNAMIC = dict[Any, Any](), dict[Any, Any]()
for one in LOWERED:
    STATIC.setdefault(one.op, []).extend(
        (one, d) for d in (one.dtypes if FIRST[one.op] is one or EVERY else one.dtypes[:1])
    )
for one in filter(is_lowered, SPREAD):
    DYNAMIC.setdefault(one.op, []).append((one, one.dtypes[0]))


@pytest.fixture(scope="module")
def context():
    return create_context()


def lower(module):
    Decompose().run(module, REGISTRY)
    ConvertOneflowToLinalg().run(module, REGISTRY)
    assert module.operation.verify()
    left: list[Any] = []
    dialect.walk(module.operation, left.append)
    assert not left
    return Runner(module)


def static(desc):
    return desc


def dynamic(desc):
    """The type with dynamic dimensions, but for dimensions of size 1, which are broadcast."""
    return TensorDesc(tuple(1 if d == 1 else None for d in desc.shape), desc.dtype)


def add_function(module, name, call, loosen=static):
    """A function that calls the operator on its arguments and returns the results.

    Arguments have the types of `loosen`, or static types if the operator requires static types.
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
    """The call with other operands, in order."""
    rest = iter(values)
    inputs = {
        k: tuple(next(rest) for _ in x) if isinstance(x, tuple) else None if x is None else next(rest)
        for k, x in call.inputs.items()
    }
    return Call(call.record, inputs, call.attrs)


def check(cases, loosen, context):
    """Compiles a module with a function for each case of real numbers, and compares results with the references."""
    cases = [case for case in cases if is_real(*case)]
    if not cases:
        pytest.skip("complex numbers are pairs of real numbers at this stage")
    with context, ir.Location.unknown():
        module = ir.Module.create()
        for number, case in enumerate(cases):
            add_function(module, f"case{number}", described(call_of(*case)), loosen)
        runner = lower(module)
    for index, (sample, dtype) in enumerate(cases):
        op = call_of(sample, dtype)
        got = runner.run(f"case{index}", flatten(op.inputs.values()))
        assert not runner.failures
        for number, (result, want) in enumerate(zip(got, run_reference(op), strict=True)):
            signed = result.view(want.dtype) if want.dtype.kind == "u" else result
            assert_close(signed, np.asarray(want), sample.tolerance(dtype), f"{sample} {dtype} result {number}")


@pytest.mark.parametrize("name", STATIC)
def test_samples_at_the_linalg_stage(name, context):
    check(STATIC[name], static, context)


@pytest.mark.parametrize("name", DYNAMIC)
def test_samples_with_dynamic_dimensions(name, context):
    check(DYNAMIC[name], dynamic, context)


def converted(text, context):
    module = read_module(text, context)
    with context:
        Decompose().run(module, REGISTRY)
        ConvertOneflowToLinalg().run(module, REGISTRY)
        assert module.operation.verify()
    return module


def run_text(text, context, *arrays):
    module = converted(text, context)
    with context:
        runner = Runner(module)
        return runner.run("f", arrays), runner.failures


ADD = """func.func @f(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
  %0 = "oneflow.broadcast_add"(%a, %b) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}"""


def test_shared_dynamic_dimensions_are_checked(context):
    zeros = np.zeros(8, np.float32)
    (got,), failures = run_text(ADD, context, zeros[:3] + 1, zeros[:3] + 2)
    assert got.tolist() == [3, 3, 3] and not failures
    _, failures = run_text(ADD, context, zeros[:3], zeros[:5])
    assert failures == [("oneflow.broadcast_add: dimension 0 of y, shared with other operands (-:2:8)", 5, 3)]


def test_dynamic_reduction_dimension_is_checked(context):
    text = """func.func @f(%a: tensor<2x3xf32>, %b: tensor<?x4xf32>) -> tensor<2x4xf32> {
      %0 = "oneflow.matmul"(%a, %b) : (tensor<2x3xf32>, tensor<?x4xf32>) -> tensor<2x4xf32>
      return %0 : tensor<2x4xf32>
    }"""
    a, b = np.ones((2, 3), np.float32), np.ones((5, 4), np.float32)
    assert run_text(text, context, a, b[:3])[1] == []
    assert run_text(text, context, a, b)[1] == [("oneflow.matmul: dimension 0 of b (-:2:12)", 5, 3)]


def test_size_of_the_result_type_is_checked(context):
    text = """func.func @f(%a: tensor<?xf32>) -> tensor<4xf32> {
      %0 = "oneflow.tanh"(%a) : (tensor<?xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }"""
    _, failures = run_text(text, context, np.zeros(5, np.float32))
    assert failures == [("oneflow.tanh: dimension 0 of the result (-:2:12)", 5, 4)]


def test_dynamic_reshape_checks_the_number_of_elements(context):
    text = """func.func @f(%a: tensor<?x3xf32>) -> tensor<?x2xf32> {
      %0 = "oneflow.reshape"(%a) {shape = [-1 : si64, 2 : si64]} : (tensor<?x3xf32>) -> tensor<?x2xf32>
      return %0 : tensor<?x2xf32>
    }"""
    a = np.arange(12, dtype=np.float32).reshape(4, 3)
    (got,), failures = run_text(text, context, a)
    np.testing.assert_array_equal(got, a.reshape(-1, 2))
    assert not failures
    assert run_text(text, context, a[:1])[1] == [("oneflow.reshape: the number of elements (-:2:12)", 3, 2)]


def test_gathered_positions_are_checked_once_for_each_row(context):
    text = """func.func @f(%a: tensor<5x3xf32>, %i: tensor<2xi64>) -> tensor<2x3xf32> {
      %0 = "oneflow.gather"(%a, %i) {axis = 0 : si64} : (tensor<5x3xf32>, tensor<2xi64>) -> tensor<2x3xf32>
      return %0 : tensor<2x3xf32>
    }"""
    _, failures = run_text(text, context, np.zeros((5, 3), np.float32), np.array([4, -7]))
    assert failures == [("oneflow.gather: indices (-:2:12)", -7, 5)]


def test_functions_call_each_other(context):
    text = """func.func @f(%a: tensor<?xui8>) -> tensor<?xui8> {
      %0 = call @g(%a) : (tensor<?xui8>) -> tensor<?xui8>
      return %0 : tensor<?xui8>
    }
    func.func @g(%a: tensor<?xui8>) -> tensor<?xui8> {
      %0 = "oneflow.broadcast_maximum"(%a, %a) : (tensor<?xui8>, tensor<?xui8>) -> tensor<?xui8>
      return %0 : tensor<?xui8>
    }"""
    (got,), failures = run_text(text, context, np.array([1, 200], np.uint8))
    assert got.view(np.uint8).tolist() == [1, 200] and not failures


def test_calls_whose_operands_become_one_value_are_converted_separately(context):
    """The reshaped tensor is the tensor itself: only the first of two equal calls squares."""
    text = """func.func @f(%a: tensor<2xf32>, %b: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
      %0 = "oneflow.reshape_like"(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      %1 = "oneflow.broadcast_mul"(%a, %0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      %2 = "oneflow.broadcast_mul"(%b, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      return %1, %2 : tensor<2xf32>, tensor<2xf32>
    }"""
    results, _ = run_text(text, context, np.array([2, 3], np.float32), np.array([5, 7], np.float32))
    assert [x.tolist() for x in results] == [[4, 9], [10, 21]]


def test_results_keep_the_stated_type(context):
    text = """func.func @f(%a: tensor<4xf32>) -> tensor<?xf32> {
      %0 = "oneflow.tanh"(%a) : (tensor<4xf32>) -> tensor<?xf32>
      %1 = "oneflow.exp"(%0) : (tensor<?xf32>) -> tensor<?xf32>
      return %1 : tensor<?xf32>
    }"""
    assert "oneflow.sites" not in str(converted(text, context))


@pytest.mark.parametrize("of", [Decompose, ConvertOneflowToLinalg])
def test_unranked_operands_are_refused(of, context):
    text = """func.func @f(%a: tensor<*xf32>) -> tensor<*xf32> {
      %0 = "oneflow.softmax"(%a) : (tensor<*xf32>) -> tensor<*xf32>
      return %0 : tensor<*xf32>
    }"""
    module = read_module(text.replace("softmax", "tanh") if of is ConvertOneflowToLinalg else text, context)
    with context, pytest.raises(PassError, match="run oneflow-infer-types first"):
        of().run(module, REGISTRY)


def test_operators_that_decompose_are_refused(context):
    text = """func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
      %0 = "oneflow.softmax"(%a) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }"""
    module = read_module(text, context)
    with context, pytest.raises(PassError, match=r"oneflow\.softmax: .* run oneflow-decompose first"):
        ConvertOneflowToLinalg().run(module, REGISTRY)


def test_locations_are_kept(context):
    text = str(converted(ADD, context).operation.get_asm(enable_debug_info=True))
    assert 'loc("-":2' in text


def _calls_for(context, count):
    """The number of Python calls that the conversion of a chain of products takes."""
    chain = [f'%{i + 1} = "oneflow.matmul"(%{i}, %{i}) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>'
             for i in range(count)]  # fmt: skip
    end = f"return %{count} : tensor<8x8xf32> }}"
    lines = ["func.func @f(%0: tensor<8x8xf32>) -> tensor<8x8xf32> {", *chain, end]
    module = read_module("\n".join(lines), context)
    with context:
        return calls_of(ConvertOneflowToLinalg().run, module, REGISTRY)


def test_work_grows_with_the_number_of_operators(context):
    """Work is linear in the number of operators, at most 10,000 calls for each."""
    _calls_for(context, 1)
    once, twice = (_calls_for(context, count) for count in (20, 40))
    assert twice < 2.05 * once
    assert twice < 10_000 * 40
