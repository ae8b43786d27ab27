"""Results in the memory of operands, as kernels propose by SetInplaceProposalFn."""

import numpy as np
import pytest

from oneflow.dialect.numpy_builder import NumpyBuilder
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.dialect.record import OperatorError
from oneflow.runtime.executable import compile_module
from oneflow.runtime.user_ops.bounds_checks import check_bounds

X, Y = np.arange(256, dtype=np.float32), np.full(256, 10, np.float32)
TYPE = "tensor<256xf32>"


@pytest.fixture(scope="session")
def registry(load):
    return load("in_place")


def program(registry, *lines, donated=""):
    body = "\n".join(f'  %{i} = "oneflow.{line} : ({", ".join([TYPE] * line.count("%"))}) -> {TYPE}'
                     for i, line in enumerate(lines))  # fmt: skip
    text = f"func.func @main(%x: {TYPE}{donated}, %y: {TYPE}) -> {TYPE} {{\n{body}\n"
    text += f"  return %{len(lines) - 1} : {TYPE}\n}}"
    return read_module(text, create_context(registry), "p.mlir", registry)


RELU_X, BUMP, RELU = 'relu"(%x)', 't_bump"(%0, %y)', 'relu"(%1)'
#: Programs, the computed values, and the number of buffers in the workspace.
PROGRAMS = {
    "between kernels": ([RELU_X, BUMP, RELU], X + Y, 1),
    "read again": ([RELU_X, BUMP, 'broadcast_add"(%0, %1)'], 2 * X + Y, 2),
    "of an argument": (['t_bump"(%x, %y)', 'relu"(%0)'], X + Y, 1),
    "given twice": ([RELU_X, 't_bump"(%0, %0)', RELU], 2 * X, 2),
    "a result of the program": ([RELU_X, BUMP], X + Y, 1),
    "one after the other": ([RELU_X, BUMP, 't_bump"(%1, %y)', 'relu"(%2)'], X + 2 * Y, 1),
}


@pytest.mark.parametrize("guarded", [False, True], ids=["plain", "guarded"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_share_memory_with_operands_after_their_last_use(registry, name, guarded):
    lines, wanted, buffers = PROGRAMS[name]
    check_bounds(guarded)
    try:
        made = compile_module(program(registry, *lines), "main", registry=registry)
        x = X.copy()
        np.testing.assert_array_equal(made(x, Y)[0], wanted)
        np.testing.assert_array_equal(x, X)
    finally:
        check_bounds(False)
    assert made.memory.workspace == buffers * X.nbytes


def test_donated_arguments_are_overwritten(registry):
    made = compile_module(program(registry, 't_bump"(%x, %y)', donated=" {oneflow.donated = 0 : i64}"), "main",
                          registry=registry)  # fmt: skip
    x = X.copy()
    (found,) = made(x, Y)
    np.testing.assert_array_equal(found, X + Y)
    assert np.shares_memory(found, x)


@pytest.mark.parametrize(
    "mode, message",
    [
        ("throws", "thrown by the proposal"),
        ("fails", r"in_place.cpp:\d+\) failed: .*no proposal today"),
        ("operand", r"the call has no operand z\[0\]"),
        ("size", "small has 4 bytes, y, whose memory it is to share, 1024"),
        ("twice", "out is to share the memory of two operands"),
        ("both", "two results are to share the memory of x"),
    ],
)
def test_wrong_proposals_are_errors(registry, mode, message):
    with pytest.raises(OperatorError, match=f"t_proposals: SetInplaceProposalFn \\(.*{message}"):
        NumpyBuilder(registry).t_proposals(X, Y, mode=mode)


def test_a_program_with_a_wrong_proposal_says_where(registry):
    made = program(registry, 't_bump"(%x, %y) {mode = "fails"}')
    with pytest.raises(OperatorError, match=r"t_bump: SetInplaceProposalFn \(.*no proposal today \(.*:2:\d+\)"):
        compile_module(made, "main", registry=registry)(X, Y)
