"""Small kernels of a short program that are one launch: values, positions and kernels that are not fused."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from lowered import lower

import oneflow as flow
from oneflow.dialect import ops  # noqa: F401
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.frontend.tracing.trace import trace
from oneflow.lowering.targets.selection import gpu_target, using_gpu
from oneflow.lowering.triton.launch import horizontal_fusion
from oneflow.runtime.cuda.compiler import compile_source
from oneflow.runtime.failures import OutOfBoundsError
from oneflow.testing.interpreter import interpret
from oneflow.testing.triton_interpreter import interpret_program

F = flow.nn.functional
SHAPES = [(8, 30), (8,), (20, 30), (20,), (10, 20), (10,)]


def loss(x, y, *parameters):
    w, b, v, c = parameters
    return F.cross_entropy(F.linear(F.relu(F.linear(x, w, b)), v, c), y)


def step(x, y, *parameters):
    """The loss, and parameters after a step."""
    value, grads = flow.value_and_grad(lambda *p: loss(x, y, *p), argnums=(0, 1, 2, 3))(*parameters)
    return value, *(p - 0.1 * g for p, g in zip(parameters, grads, strict=True))


def stepping():
    specs = [flow.TensorSpec(s, flow.int64 if i == 1 else flow.float32) for i, s in enumerate(SHAPES)]
    text = str(trace(step, *specs))
    for number in range(2, 6):
        shape = "x".join(map(str, SHAPES[number]))
        given = f"%arg{number}: tensor<{shape}xf32> {{"
        assert given in text
        text = text.replace(given, f"{given}oneflow.donated = {number - 1} : i64, ")
    return text


def arrays():
    rng = np.random.default_rng(3)
    made: list[np.ndarray] = [rng.standard_normal(s).astype(np.float32) for s in SHAPES]
    made[1] = rng.integers(0, 10, SHAPES[1])
    return made


def test_a_step_is_few_launches_that_update_in_place():
    """Two products, cross-entropy, the users of cross-entropy, and the rest: reads of weights precede updates."""
    text = stepping()
    program = lower(text)
    assert program.plan.count("run.launch") == 5 and program.plan.count("run.donated") == 4
    want = interpret(read_module(text, create_context()), "step", *arrays())
    for got, other in zip(interpret_program(program, *arrays()), want, strict=True):
        np.testing.assert_allclose(got, other, 1e-4, 1e-5)
    joined = [s for s in program.sources.values() if "_part(" in s.text]
    assert joined and all(compile_source(s).cubin for s in joined)


def test_a_check_in_a_launch_with_others_is_noted():
    given = arrays()
    given[1][5] = 10
    with pytest.raises(OutOfBoundsError, match="10"):
        interpret_program(lower(stepping()), *given)


def test_kernels_with_different_functions_of_one_name_are_not_fused():
    """The largest of floats is NaN where one is NaN; the largest of integers is not chosen by such a function."""
    x, y = np.zeros((8, 30), np.float32), np.zeros((8, 30), np.int32)
    x[:, 7], y[:, 9] = np.nan, 1

    def function(x, y):
        return flow.argmax(x, -1), flow.argmax(y, -1)

    specs = [flow.TensorSpec((8, 30), kind) for kind in (flow.float32, flow.int32)]
    one, other = interpret_program(lower(str(trace(function, *specs))), x, y)
    assert one.tolist() == [7] * 8 and other.tolist() == [9] * 8


def two(rows):
    """Two kernels that need nothing of each other."""
    kind = f"tensor<{rows}x256xf32>"
    return f"""func.func @main(%x: {kind}, %y: {kind}) -> ({kind}, {kind}) {{
      %0 = "oneflow.softmax"(%x) : ({kind}) -> {kind}
      %1 = "oneflow.log_softmax"(%y) : ({kind}) -> {kind}
      return %0, %1 : {kind}, {kind}
    }}"""


def test_only_small_kernels_of_short_programs_are_fused(change_gpu):
    assert lower(two(40)).plan.count("run.launch") == 1
    assert lower(two(4000)).plan.count("run.launch") == 2
    change_gpu(launches={"max_fused_entry_calls": 1})
    assert lower(two(40)).plan.count("run.launch") == 2


@pytest.mark.parametrize("change", [{"sms": 4}, {"l2_cache_bytes": 1 << 19}])
def test_kernels_that_are_large_for_the_target_are_not_fused(change):
    """Each kernel has 10 programs, and reads and writes 82 kB."""
    with using_gpu(replace(gpu_target(), **change)):
        assert lower(two(40)).plan.count("run.launch") == 2


def test_values_of_two_fused_kernels():
    x, y = (np.random.default_rng(i).standard_normal((41, 256)).astype(np.float32) for i in range(2))
    one, other = interpret_program(lower(two(41)), x, y)
    np.testing.assert_allclose(one, np.exp(x) / np.exp(x).sum(1, keepdims=True), 1e-5)
    np.testing.assert_allclose(other, y - np.log(np.exp(y).sum(1, keepdims=True)), 1e-4, 1e-5)


def test_kernels_that_read_and_update_one_argument_are_not_fused():
    """Whichever comes first: the updates of 1 wait for 0, and come before 2."""
    graph: Any = SimpleNamespace(producers=[set(), set(), set()], ordered_after={1: {0, 2}})
    assert horizontal_fusion.dependences(graph) == [set(), {0}, {1}]
