"""Long rows for Hopper: which programs have a Gluon kernel, the values, that kernels compile and fit."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from test_hopper_attention import program_of

import oneflow as flow
from oneflow.lowering.targets.selection import gpu_target
from oneflow.runtime.cuda.compiler import compile_source
from oneflow.testing.triton_interpreter import interpret_program

F = flow.nn.functional
KINDS = {
    "f16": (flow.float16, np.float16, 2e-3),
    "bf16": (flow.bfloat16, ml_dtypes.bfloat16, 1e-2),
    "f32": (flow.float32, np.float32, 1e-6),
}

GPU = gpu_target()


def normalized(x, w, b):
    x, w, b = (a.astype(np.float64) for a in (x, w, b))
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * w + b


def softmax(x):
    x = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True).astype(np.float64))
    return x / x.sum(-1, keepdims=True)


def sum_and_shares(x):
    x = x.astype(np.float64)
    return x / x.sum(-1, keepdims=True), x.sum(-1)


#: Functions of rows of a length, the NumPy references, and the numbers of row operands and vector operands.
FUNCTIONS: dict[str, Any] = {
    "softmax": (lambda x: flow.softmax(x, -1), softmax, 1, 0),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, w.shape, w, b), normalized, 1, 2),
    "of a sum": (lambda x, y: flow.softmax(x + y, -1), lambda x, y: softmax((x + y).astype(x.dtype)), 2, 0),
    "a second result": (lambda x: (x / x.sum(-1, keepdim=True), x.sum(-1)), sum_and_shares, 1, 0),
    "tensors in addition to the row": (
        lambda x, y: flow.softmax(x, -1) * y, lambda x, y: softmax(x).astype(x.dtype) * y.astype(np.float64), 2, 0,
    ),
}  # fmt: skip


def sources(function, shapes, kind):
    """A program specialized for Hopper, and the sources of the kernels."""
    program = program_of(function, shapes, kind).on("sm_90")
    return program, list(program.sources.values())


@pytest.fixture
def short_rows(change_gpu):
    """Two rows of any length are in shared memory, in small blocks."""
    change_gpu(sms=2, shared_rows={"min_row": 1, "block": 16})


@pytest.mark.usefixtures("short_rows")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [64, 56])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_of_hopper_rows(name, length, kind):
    """Rows end at or within a block. The interpreter fills blocks with NaN until the kernel waits for the copy."""
    (dtype, element, tolerance), rng = KINDS[kind], np.random.default_rng(3)
    function, reference, rows, vectors = FUNCTIONS[name]
    given = [np.abs(rng.standard_normal(s)).astype(element) for s in [(5, length)] * rows + [(length,)] * vectors]
    program, (source,) = sources(function, [a.shape for a in given], dtype)
    buffers = 2 if name == "of a sum" else 1
    assert source.language == "gluon" and source.text.count("allocate_shared_memory") == buffers
    got, want = interpret_program(program, *given), reference(*given)
    for one, other in zip(got, want if isinstance(want, tuple) else (want,), strict=True):
        np.testing.assert_allclose(one.astype(np.float64), other, tolerance, tolerance)


#: A function, the shape of the rows, and whether the kernel is in Gluon: long rows, two of which fit into the shared
#: memory of an SM, with aligned beginnings, and at least as many rows as SMs.
CASES = [
    ("softmax", (2048, 32768), "bf16", True), ("layer_norm", (512, 32768), "f16", True),
    ("softmax", (512, 50304), "bf16", True), ("softmax", (512, 20000), "f32", True),
    ("of a sum", (512, 20000), "bf16", True), ("of a sum", (512, 32768), "bf16", False),
    ("softmax", (2048, 32768), "f32", False), ("softmax", (512, 16384), "bf16", False),
    ("softmax", (512, 32770), "bf16", False), ("softmax", (100, 32768), "bf16", False),
    ("softmax", (512, 65536), "bf16", False),
]  # fmt: skip


@pytest.mark.parametrize(("name", "shape", "kind", "has"), CASES)
def test_supported_rows_compile(name, shape, kind, has):
    function, _, rows, vectors = FUNCTIONS[name]
    _, found = sources(function, [shape] * rows + [shape[1:]] * vectors, KINDS[kind][0])
    assert [source.language for source in found] == ["gluon"] if has else all(s.language == "triton" for s in found)
    if has:
        assert (
            compile_source(found[0]).shared
            <= GPU.block_shared_bytes // GPU.kernels.shared_rows.min_programs_per_sm - GPU.reserved_shared_bytes // 2
        )


@pytest.mark.parametrize("name", ["softmax", "layer_norm"])
def test_rows_that_exceed_shared_memory_keep_the_general_kernel(name):
    """The gradient of the rows reads the result's gradient in two passes over the row, not in the first pass."""
    function, _, _, vectors = FUNCTIONS[name]

    def gradient(*x):
        return flow.vjp(lambda first: function(first, *x[1:-1]), x[0])[1](x[-1])

    for length in (20000, 32768):
        _, found = sources(gradient, [(512, length), *[(length,)] * vectors, (512, length)], flow.bfloat16)
        assert all(source.language == "triton" for source in found)


@pytest.mark.usefixtures("short_rows")
def test_rows_reduced_to_one_number_use_no_shared_memory():
    """Each pass over a row may read a number of the row, as the passes of a cross-entropy read the label."""

    def entropy(x, y):
        return flow.value_and_grad(lambda x: F.cross_entropy(x, y))(x)

    _, found = sources(entropy, [(512, 50304), flow.TensorSpec((512,), flow.int64)], flow.bfloat16)
    assert [source.language for source in found] == ["triton", "gluon", "triton"]
    x, y = (np.random.default_rng(3).standard_normal(s).astype(np.float32) for s in ((5, 56), (5, 1)))
    program, (source,) = sources(lambda x, y: flow.softmax(x * y, -1), [x.shape, y.shape], flow.float32)
    assert source.language == "gluon"
    np.testing.assert_allclose(interpret_program(program, x, y)[0], softmax(x * y), 1e-6, 1e-6)


@pytest.mark.parametrize(
    "function",
    [lambda x: x.sum(-1), lambda x: flow.relu(x), lambda x: flow.cumsum(x, -1), lambda x: flow.softmax(x, 0)],
)
def test_single_pass_rows_use_the_generic_kernel(function):
    _, found = sources(function, [(512, 32768)], flow.bfloat16)
    assert all(source.language == "triton" for source in found)


def test_grouped_calls_use_the_generic_kernel():
    """The Gluon kernel computes one call; horizontal fusion has no Gluon kernel."""

    def both(x, y):
        return flow.softmax(x, -1), flow.softmax(y, -1)

    (shape,) = {shape for _, shape, kind, has in CASES if has and kind == "f32"}
    _, (alone,) = sources(lambda x: flow.softmax(x, -1), [(140, shape[1])], flow.float32)
    _, (merged,) = sources(both, [(140, shape[1])] * 2, flow.float32)
    assert (alone.language, merged.language) == ("gluon", "triton") and merged.name.endswith("_x2")
