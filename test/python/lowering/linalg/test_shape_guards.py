"""Programs with sizes known at run time only, called with sizes that types refuse: each ends in a located error.

The oracle of a call is the same call with static sizes: an accepted call gives the values of the reference,
a refused call is a run-time error that names the operator. Positions that come from data may be out of range.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import numpy as np
import pytest
from samples import SAMPLES

import oneflow as flow
from oneflow.dialect import dtypes
from oneflow.dialect.compute import element_wise
from oneflow.dialect.numpy_builder import run_reference
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.dialect.record import (
    REGISTRY,
    Call,
    OperatorError,
    Registry,
    define,
    distribute,
    flatten,
    no_grad,
    no_reference,
    no_sbp,
)
from oneflow.dialect.shapes import broadcast_shapes
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.lowering.linalg.shape_guards import requirements
from oneflow.passes.pipeline import PipelineFailure
from oneflow.runtime.executable import Options, OutOfBoundsError, SizeError, compile_module
from oneflow.testing import checks
from oneflow.testing.backend import compile_call
from oneflow.testing.sample import Sample

#: External kernels and calls of bodies are made for the sizes of each call.
SIZED = {r.name for r in REGISTRY if r.kernel is not None or r.control is not None or "external" in r.traits}
WITH_OPERANDS = [s for s in SAMPLES if flatten(s.operands) and s.op not in SIZED]
#: The first two samples of every operator.
BY_OPERATOR = groupby(sorted(WITH_OPERANDS, key=lambda s: s.op), lambda s: s.op)
CASES = [sample for _, those in BY_OPERATOR for sample in list(those)[:2]]
#: The compile-time message of operators that require static sizes.
STATIC = re.compile("expected (a )?static")
#: Operators whose data depend on sizes: positions in an image of another size denote other elements.
FLAT_POSITIONS = {"max_pool_1d_grad", "max_pool_2d_grad", "max_pool_3d_grad"}
#: Operators that require equal sizes of operands of unknown sizes, although a larger operand is valid.
STRICTER = {"dim_scatter_add_like"}


def other_sizes(arrays: list[np.ndarray]) -> Iterator[list[np.ndarray]]:
    """The operands with each dimension in turn larger, smaller and empty; dimensions of size 1 are static."""
    for index, array in enumerate(arrays):
        for axis, size in enumerate(array.shape):
            for other in sorted({size + 1, size - 1, 2 * size, 0} - {size, 1, -1}) if size != 1 else ():
                shape = (*array.shape[:axis], other, *array.shape[axis + 1 :])
                resized = np.resize(array, shape) if 0 not in shape else np.zeros(shape, array.dtype)
                yield [*arrays[:index], resized, *arrays[index + 1 :]]


def with_operands(op: Call, flat: list[Any]) -> Call:
    counts = [len(x) if isinstance(x, tuple) else int(x is not None) for x in op.inputs.values()]
    return Call(op.record, distribute(op.record.signature.inputs, flat, counts), op.attrs)


def is_allowed(call: Call) -> bool:
    try:
        checks.described(call)
    except OperatorError:
        return False
    return True


@pytest.mark.parametrize("sample", CASES, ids=str)
def test_refused_sizes_are_errors_at_run_time(sample: Sample) -> None:
    dtype = sample.dtypes[0]
    op = checks.make_case(sample, dtype, REGISTRY)
    arrays = flatten(op.inputs.values())
    try:
        program = compile_call(op, dynamic=True, options=Options(cached=False, level=0))
    except (OperatorError, PipelineFailure) as error:
        assert STATIC.search(str(error)), str(error)
        return
    for changed in other_sizes(arrays):
        call = with_operands(op, changed)
        shapes = [x.shape for x in changed]
        if not is_allowed(call):
            with pytest.raises((SizeError, OutOfBoundsError), match=r"^(oneflow\.\w+|tensor\.cast): "):
                raise AssertionError(f"{sample} with {shapes} gave {[r.shape for r in program(*changed)]}")
            continue
        expect_reference(sample, call, program, changed)


def expect_reference(sample: Sample, call: Call, program: Any, changed: list[np.ndarray]) -> None:
    """The values of the reference, or an error where data are positions."""
    try:
        got = program(*changed)
    except OutOfBoundsError:
        return
    except SizeError:
        assert sample.op in STRICTER
        return
    if sample.op in FLAT_POSITIONS:
        return
    for one, want in zip(got, run_reference(call), strict=True):
        text = f"{sample} with {[x.shape for x in changed]}"
        checks.assert_close(one, np.asarray(want), sample.tolerance(sample.dtypes[0]), text)


def asked(signature: str, types: Any, *shapes: tuple[int | None, ...]) -> list[str]:
    """The requirements of a rule of types for operands of these shapes, in order."""
    record = define(signature, registry=Registry(), doc="..", types=types, sbp=no_sbp("test"), grad=no_grad("test"),
                    compute=lambda op: op.x, reference=no_reference("test"))  # fmt: skip
    descs = [TensorDesc(shape, dtypes.float32) for shape in shapes]
    call = Call(record, distribute(record.signature.inputs, descs, None), {})
    found = requirements(call)
    return [f"{'' if r.holds else 'not '}{r.guard.text}{' if ..' if r.conditions else ''}" for r in found]


def test_requirements_of_rules() -> None:
    """Comparisons, arithmetic and conditional requirements."""

    def rule(op: Call) -> Any:
        (n, m), (k,) = op.x.shape, op.y.shape
        if n * 2 + 1 != k or m < 3:
            raise op.error("no")
        if n > 9 and m % 4:
            raise op.error("no")
        return op.x

    assert asked("f(x, y) -> z", rule, (None, None), (None,)) == [
        "size(1, 0) eq add(mul(size(0, 0), const2), const1)",
        "not size(0, 1) lt const3",
        "rem(size(0, 1), const4) eq const0 if ..",
    ]
    assert asked("f(x, y) -> z", rule, (4, None), (None,)) == ["size(1, 0) eq const9", "not size(0, 1) lt const3"]
    assert asked("f(x, y) -> z", rule, (4, 5), (9,)) == []


def test_equal_sizes_have_one_name() -> None:
    """Implied requirements are left out; a dynamic size is not broadcast."""

    def rule(op: Call) -> Any:
        if not op.x.shape == op.y.shape == op.z.shape or op.x.element_count != op.z.element_count:
            raise op.error("no")
        return op.x

    pairs = [f"size({n}, {axis}) eq size(0, {axis})" for n in (1, 2) for axis in (0, 1)]
    assert asked("f(x, y, z) -> w", rule, *[(None, None)] * 3) == pairs

    def broadcast(op: Call) -> TensorDesc:
        return TensorDesc(broadcast_shapes(op, [op.x.shape, op.y.shape]), op.x.dtype)

    assert asked("f(x, y) -> w", broadcast, (None,), (None,)) == ["size(1, 0) eq size(0, 0)"]


def test_rule_that_needs_a_number_has_no_requirements() -> None:
    def rule(op: Call) -> TensorDesc:
        return TensorDesc(tuple(range(op.x.shape[0])), op.x.dtype)

    assert asked("f(x) -> y", rule, (None,)) == []


def test_cast_to_a_static_size_is_checked() -> None:
    """A run with another size than the size of a `tensor.cast` fails before any read out of bounds."""
    text = """func.func @main(%x: tensor<?x3xf32>) -> tensor<4x3xf32> {
      %0 = tensor.cast %x : tensor<?x3xf32> to tensor<4x3xf32>
      %1 = "oneflow.square"(%0) : (tensor<4x3xf32>) -> tensor<4x3xf32>
      return %1 : tensor<4x3xf32>
    }"""
    program = compile_module(read_module(text, create_context()), options=Options(cached=False))
    np.testing.assert_array_equal(program(np.full((4, 3), 2, np.float32))[0], np.full((4, 3), 4))
    with pytest.raises(SizeError, match=r"^tensor\.cast: dimension 0 \(-:2:12\): expected 4, got 2$"):
        program(np.ones((2, 3), np.float32))


def test_messages_name_the_sizes() -> None:
    """Messages name sizes by the operands of the operator."""
    op = checks.make_call(
        Sample("conv_filter_grad", attrs={}), [np.ones((1, 2, 3, 3), np.float32), np.ones((1, 2, 4, 4), np.float32)],
        {"data_format": "channels_first", "kernel_size": (2, 2), "strides": (1, 1), "dilation_rate": (1, 1),
         "padding_before": (0, 0), "num_spatial_dims": 2, "groups": 1}, REGISTRY)  # fmt: skip
    program = compile_call(op, dynamic=True, options=Options(cached=False, level=0))
    text = r"^oneflow.conv_filter_grad: dimension 2 of dy, which is dimension 2 of x - 1: expected 3, got 2$"
    with pytest.raises(SizeError, match=text):
        program(np.ones((1, 2, 2, 3), np.float32), np.ones((1, 2, 4, 4), np.float32))


def test_size_that_is_static_in_one_operand() -> None:
    """The size of the row is 1 in one operand's type and unknown in the other type: both dimensions are one loop."""
    text = """func.func @main(%x: tensor<1x1x?x?xf16>, %dy: tensor<1x1x2x1xf16>) -> tensor<1x1x2x1xf16> {
      %y = "oneflow.avg_pool_2d"(%x) {data_format = "channels_first", kernel_size = array<i32: 2, 2>,
        padding = array<i32: 0, 0>, stride = array<i32: 1, 1>} : (tensor<1x1x?x?xf16>) -> tensor<1x1x?x?xf16>
      %0 = "oneflow.softmax_grad"(%y, %dy) : (tensor<1x1x?x?xf16>, tensor<1x1x2x1xf16>) -> tensor<1x1x2x1xf16>
      return %0 : tensor<1x1x2x1xf16>
    }"""
    program = compile_module(read_module(text, create_context()), options=Options(cached=False))
    x, dy = np.arange(6, dtype=np.float16).reshape(1, 1, 3, 2), np.array([0.5, -2], np.float16).reshape(1, 1, 2, 1)
    y = np.array([1.5, 3.5], np.float16).reshape(1, 1, 2, 1)
    np.testing.assert_allclose(program(x, dy)[0], y * (dy - y * dy), rtol=2e-3)


def test_concatenation_of_empty_tensors() -> None:
    """One operand has a static dimension of size 0."""
    text = """func.func @main(%x: tensor<?x?xf32>, %y: tensor<?x0xf32>) -> tensor<?x0xf32> {
      %0 = "oneflow.cat"(%x, %y) : (tensor<?x?xf32>, tensor<?x0xf32>) -> tensor<?x0xf32>
      return %0 : tensor<?x0xf32>
    }"""
    program = compile_module(read_module(text, create_context()), options=Options(cached=False))
    assert program(np.ones((3, 0), np.float32), np.ones((2, 0), np.float32))[0].shape == (5, 0)


def _kept_type(op: Call) -> Any:
    """The rule of a user: both operands have one shape, of any number of rows."""
    if op.y.shape != op.x.shape:
        raise op.error("expected y of the shape of x")
    return op.x


#: Meanings that do not compare the sizes which `_kept_type` compares, and operators that these call.
KEEPS: dict[str, tuple[str, dict[str, Any]]] = {
    "decompose": ("tsize_kept", {"types": _kept_type, "decompose": lambda ops, op: ops.identity(op.y)}),
    "nested": ("tsize_nested", {"types": "y", "decompose": lambda ops, op: ops.tsize_kept(op.x, op.y)}),
    "nested check": ("tsize_assign", {"types": "y", "decompose": lambda ops, op: ops.assign(op.x, op.y)}),
    "compute": (
        "tsize_computed",
        {"types": _kept_type, "compute": lambda op: element_wise(op.y.shape, lambda *i: op.x[i] * 0 + op.y[i])},
    ),
}


@pytest.mark.parametrize("meaning", KEEPS)
def test_rules_of_users_are_checked_at_run_time(meaning: str) -> None:
    """A meaning need not compare the sizes that the types of the operator, or of an inner operator, compare."""
    for name, slots in KEEPS.values():
        if name not in REGISTRY:
            flow.operator(f"{name}(x, y) -> z")(type("Kept", (), {"__doc__": "y, of the type of x.", **slots}))
    name, rows = KEEPS[meaning][0], flow.TensorSpec((None, 2), flow.float32)
    program = flow.compile(lambda x, y: getattr(flow.ops, name)(x, y), rows, rows)
    three, two = (np.arange(2.0 * n, dtype=np.float32).reshape(n, 2) for n in (3, 2))
    np.testing.assert_array_equal(program(three + 1, three), three)
    with pytest.raises(SizeError, match=rf"oneflow\.{name}: dimension 0 of y, which is dimension 0 of x .*3, got 2"):
        program(three, two)
