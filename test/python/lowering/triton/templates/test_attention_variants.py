"""Attention of every head width, with masks of every type and shape, grouped-query attention, and dropout."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from assembler_reports import compile_with_report, spilled
from test_hopper_attention import program_of

import oneflow as flow
from oneflow.dialect._mlir import ir
from oneflow.dialect.record import REGISTRY
from oneflow.lowering.pipelines import pipeline_between
from oneflow.lowering.targets.selection import gpu_target, using_gpu
from oneflow.lowering.triton.launch.program import read_program
from oneflow.passes.pipeline import Pipeline
from oneflow.runtime.cuda.compiler import compile_source
from oneflow.testing.triton_interpreter import interpret_program

BATCH, HEADS, LENGTH, SIZE = 2, 4, 70, 75
F = flow.nn.functional
TYPES = {np.dtype(np.float16): flow.float16, np.dtype(np.float32): flow.float32, np.dtype(np.bool_): flow.bool}
TYPES[np.dtype(ml_dtypes.bfloat16)] = flow.bfloat16


def lower(function, *arrays):
    module = flow.trace(function, *(flow.TensorSpec(a.shape, TYPES[a.dtype]) for a in arrays))
    with module.context, ir.Location.unknown():
        Pipeline.parse(pipeline_between(None, "triton"), module.context).run(module, REGISTRY)
        program = read_program(module)
    assert {"oneflow_attention_0", "oneflow_attention_grad_1", "oneflow_attention_grad_2"} <= set(program.sources)
    return program


def operands(width, out=None, groups=HEADS, dtype=np.float16):
    rng = np.random.default_rng(width)
    shapes = [
        (HEADS, LENGTH, width),
        (groups, SIZE, width),
        (groups, SIZE, out or width),
        (HEADS, LENGTH, out or width),
    ]
    return [rng.standard_normal((BATCH, *s)).astype(dtype) for s in shapes]


def expected(q, k, v, dy, added=0.0):
    """The result and the gradients of q, k and v."""
    share, scale = q.shape[1] // k.shape[1], q.shape[3] ** -0.5
    split = (BATCH, k.shape[1], share, SIZE, -1)
    q, k, v, dy = (x.astype(np.float64) for x in (q, k, v, dy))
    k, v = (np.repeat(x, share, 1) for x in (k, v))
    scores = q @ k.swapaxes(2, 3) * scale + added
    e = np.exp(scores - scores.max(-1, keepdims=True))
    weights = e / e.sum(-1, keepdims=True)
    direct = dy @ v.swapaxes(2, 3)
    slope = weights * (direct - (weights * direct).sum(-1, keepdims=True)) * scale
    dk, dv = (x.reshape(split).sum(2) for x in (slope.swapaxes(2, 3) @ q, weights.swapaxes(2, 3) @ dy))
    return weights @ v, slope @ k, dk, dv


def gradients(function):
    def both(q, k, v, dy, *rest):
        pull = lambda *x: (function(*x, *rest) * dy).to(flow.float32).sum()  # noqa: E731
        return function(q, k, v, *rest), *flow.grad(pull, argnums=(0, 1, 2))(q, k, v)

    return both


def check(function, given, want, digits=1e-2):
    got = interpret_program(lower(gradients(function), *given), *given)
    for one, other in zip(got, want, strict=True):
        values = one.view(given[0].dtype).astype(np.float64)
        np.testing.assert_allclose(values, other, rtol=digits, atol=digits * max(1, np.abs(other).max() / 4))


def operator(q, k, v, mask=None):
    return F.scaled_dot_product_attention(q, k, v, mask)


def causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def scores(q, k):
    return flow.matmul(q, k.transpose(-2, -1)).to(flow.float32) * q.shape[-1] ** -0.5


def written_out(q, k, v, mask):
    return flow.matmul(flow.softmax(scores(q, k) + mask, -1).to(q.dtype), v)


def masked_fill(number):
    """Attention written out whose scores are filled with a number where the mask is true."""
    return lambda q, k, v, mask: flow.matmul(flow.softmax(scores(q, k).masked_fill(mask, number), -1).to(q.dtype), v)


LATER = np.where(np.tri(LENGTH, SIZE, dtype=np.bool_), 0.0, -np.inf)


@pytest.mark.parametrize(("width", "out"), [(16, 16), (24, 40), (32, 32), (64, 128), (80, 80), (192, 96), (256, 256)])
@pytest.mark.parametrize("groups", [HEADS, 1])
def test_head_widths(width, out, groups):
    given = operands(width, out, groups)
    check(causal, given, expected(*[*given, LATER]))


SHAPES = [
    (LENGTH, SIZE),
    (1, SIZE),
    (1, 1, LENGTH, SIZE),
    (BATCH, 1, 1, SIZE),
    (1, HEADS, LENGTH, 1),
    (BATCH, HEADS, LENGTH, SIZE),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    ("function", "dtype"), [(operator, np.float16), (written_out, np.float32)], ids=["f16", "f32"]
)
def test_additive_masks(function, dtype, shape):
    given = operands(16, groups=2) if function is operator else operands(16)
    mask = np.random.default_rng(1).standard_normal(shape).astype(dtype)
    check(function, [*given, mask], expected(*[*given, mask.astype(np.float64)]))


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float32], ids=["bf16", "f32"])
def test_masks_of_bfloat16(dtype):
    given = operands(32, dtype=ml_dtypes.bfloat16)
    mask = np.random.default_rng(1).standard_normal((LENGTH, SIZE)).astype(dtype)
    check(written_out, [*given, mask], expected(*[*given, mask.astype(np.float64)]), 4e-2)


@pytest.mark.parametrize("number", [float("-inf"), -1e9, -1e4])
def test_numeric_masks(number):
    """Finite numbers too, after the diagonal."""
    given = operands(32)
    later = np.triu(np.ones((LENGTH, SIZE), np.bool_), 1)
    hidden = lambda q, k, v: masked_fill(number)(q, k, v, flow.from_numpy(later))  # noqa: E731
    check(hidden, given, expected(*[*given, LATER]))


@pytest.mark.parametrize("causal", [False, True])
def test_blocks_of_more_queries_for_wide_heads(causal):
    """Blocks fill the SMs and fit into shared memory; the last block is partial in queries and keys."""
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((1, 1, n, 200)).astype(np.float16) for n in (150, 170, 170))

    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def lowered(**target):
        with using_gpu(replace(gpu_target(), sms=1, **target)):
            return program_of(attend, [x.shape for x in (q, k, v)], flow.float16)

    programs = lowered(), lowered(block_shared_bytes=163 << 10)
    tall, low = (source for program in programs for source in program.sources.values())
    assert [(s.grid.static, s.warps, s.stages) for s in (tall, low)] == [(2, 8, 2), (3, 4, 2)]
    if causal:
        binary, report = compile_with_report(tall)
        assert binary.shared <= gpu_target().block_shared_bytes and not spilled(report)
        assert 2 * compile_source(low).shared <= gpu_target().sm_shared_bytes
    scores = np.einsum("bhqd,bhkd->bhqk", q.astype(np.float64), k) / np.sqrt(200)
    scores = np.where(np.tri(150, 170, dtype=bool), scores, -np.inf) if causal else scores
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    want = np.einsum("bhqk,bhkd->bhqd", weights / weights.sum(-1, keepdims=True), v)
    for program in programs:
        got = interpret_program(program, q, k, v)[0].astype(np.float64)
        np.testing.assert_allclose(got, want, 2e-2, 4e-3)
