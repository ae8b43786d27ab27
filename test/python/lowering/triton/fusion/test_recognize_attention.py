"""Attention written out becomes the operator on the GPU; results and gradients equal NumPy's in f64."""

import functools
import math
from typing import Any

import numpy as np
import pytest

import oneflow as flow
from oneflow.dialect._mlir import ir
from oneflow.dialect.philox import numpy_philox
from oneflow.dialect.record import REGISTRY
from oneflow.lowering.pipelines import pipeline_between
from oneflow.lowering.triton.launch.program import read_program
from oneflow.passes.pipeline import Pipeline
from oneflow.runtime.cuda.compiler import compile_source
from oneflow.testing.triton_interpreter import interpret_program

F = flow.nn.functional
BATCH, HEADS, LENGTH, SIZE, WIDTH = 2, 2, 40, 40, 16
SCALE, RATE = 1 / math.sqrt(WIDTH), 0.25
LATER = np.triu(np.ones((LENGTH, SIZE), np.bool_), 1)
PADDING = np.zeros((BATCH, 1, 1, SIZE), np.bool_)
PADDING[0, ..., 30:] = True
BIAS = np.random.default_rng(5).standard_normal((HEADS, LENGTH, SIZE)).astype(np.float16)


def plain(q, k, v):
    return flow.matmul(flow.softmax(flow.matmul(q, k.transpose(-2, -1)) * SCALE, -1), v)


def scaled_query(q, k, v):
    return flow.matmul(flow.softmax(flow.matmul(q * SCALE, k.transpose(-2, -1)), -1), v)


def causal(q, k, v):
    scores = flow.matmul(q, k.transpose(-2, -1)) / math.sqrt(WIDTH)
    seen = flow.tril(flow.ones(LENGTH, SIZE))
    return flow.matmul(flow.softmax(scores.masked_fill(seen == 0, float("-inf")), -1), v)


def causal_by_where(q, k, v):
    """A causal mask from positions, by `where`, and a softmax in f32."""
    scores = flow.matmul(q, k.transpose(-2, -1)).to(flow.float32) * SCALE
    rows, columns = flow.arange(LENGTH).reshape(LENGTH, 1), flow.arange(SIZE)
    masked = flow.where(columns <= rows, scores, flow.full((), float("-inf")))
    return flow.matmul(flow.softmax(masked, -1).to(flow.float16), v)


def finite(number, q, k, v):
    """A causal mask by a finite number: every row has its first key."""
    scores = flow.matmul(q, k.transpose(-2, -1)) * SCALE
    later = flow.triu(flow.ones(LENGTH, SIZE), 1).to(flow.bool)
    return flow.matmul(flow.softmax(scores.masked_fill(later, number), -1), v)


def finite_before_scaling(q, k, v):
    scores = flow.matmul(q, k.transpose(-2, -1)).to(flow.float32)
    masked = flow.where(flow.tril(flow.ones(LENGTH, SIZE)) > 0, scores, flow.full((), -3.4e38))
    return flow.matmul(flow.softmax(masked * SCALE, -1).to(flow.float16), v)


def finite_added(q, k, v):
    later = flow.triu(flow.full((LENGTH, SIZE), -1e9), 1)
    scores = flow.matmul(q, k.transpose(-2, -1)).to(flow.float32) * SCALE
    return flow.matmul(flow.softmax(scores + later, -1).to(flow.float16), v)


def finite_and_padded(q, k, v, mask):
    """Wholly padded rows attend to the keys that a finite number masks."""
    scores = flow.matmul(q, k.transpose(-2, -1)).to(flow.float32) * SCALE
    later = flow.triu(flow.ones(LENGTH, SIZE), 1).to(flow.bool)
    hidden = scores.masked_fill(later, -1e9).masked_fill(mask, float("-inf"))
    return flow.matmul(flow.softmax(hidden, -1).to(flow.float16), v)


def padded(q, k, v, mask, number=float("-inf")):
    """-1e9 is -inf as f16."""
    scores = flow.matmul(q, k.transpose(-2, -1)) * SCALE
    return flow.matmul(flow.softmax(scores.masked_fill(mask, number), -1), v)


def biased(q, k, v, bias):
    return flow.matmul(flow.softmax((flow.matmul(q, k.transpose(-2, -1)) + bias) * SCALE, -1), v)


def dropped(q, k, v):
    weights = flow.softmax(flow.matmul(q, k.transpose(-2, -1)) * SCALE, -1)
    return flow.matmul(F.dropout(weights, RATE), v)


CASES: dict[str, Any] = {
    "plain": (plain, [], None, False),
    "scaled query": (scaled_query, [], None, False),
    "causal": (causal, [], np.where(LATER, -np.inf, 0), True),
    "causal_by_where": (causal_by_where, [], np.where(LATER, -np.inf, 0), True),
    "finfo.min": (functools.partial(finite, -65504.0), [], np.where(LATER, -np.inf, 0), True),
    "-1e9": (functools.partial(finite, -1e9), [], np.where(LATER, -np.inf, 0), True),
    "-1e4": (functools.partial(finite, -1e4), [], np.where(LATER, -np.inf, 0), True),
    "before scaling": (finite_before_scaling, [], np.where(LATER, -np.inf, 0), True),
    "added": (finite_added, [], np.where(LATER, -np.inf, 0), True),
    "padded by -1e9": (functools.partial(padded, number=-1e9), [PADDING], np.where(PADDING, -np.inf, 0), False),
    "padded": (padded, [PADDING], np.where(PADDING, -np.inf, 0), False),
    "biased": (biased, [BIAS], BIAS.astype(np.float64) * SCALE, False),
}


WHOLE = pipeline_between(None, "triton")


def lower(function, *arrays, passes=WHOLE):
    specs = [flow.TensorSpec(a.shape, flow.bool if a.dtype == np.bool_ else flow.float16) for a in arrays]
    module = flow.trace(function, *specs)
    with module.context, ir.Location.unknown():
        Pipeline.parse(passes, module.context).run(module, REGISTRY)
    return module


def operands():
    rng = np.random.default_rng(3)
    shapes = [(BATCH, HEADS, n, WIDTH) for n in (LENGTH, SIZE, SIZE, LENGTH)]
    return [rng.standard_normal(s).astype(np.float16) for s in shapes]


def expected(q, k, v, dy, added, kept=1.0):
    """The result and the gradients of q, k and v; `kept` multiplies the weights."""
    q, k, v, dy = (x.astype(np.float64) for x in (q, k, v, dy))
    scores = q @ k.swapaxes(2, 3) * SCALE + (0 if added is None else added)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    weights = e / e.sum(-1, keepdims=True)
    dweights = dy @ v.swapaxes(2, 3) * kept
    slope = weights * (dweights - (weights * dweights).sum(-1, keepdims=True)) * SCALE
    weights = weights * kept
    return weights @ v, slope @ k, slope.swapaxes(2, 3) @ q, weights.swapaxes(2, 3) @ dy


def multipliers(program):
    """The multipliers of dropout; the seed is the only integer constant."""
    (key,) = (int(c.item()) % 2**64 for c in program.constants if c.dtype == np.int64)
    shape = (BATCH, HEADS, LENGTH, SIZE)
    position, zero = np.arange(math.prod(shape), dtype=np.uint64), np.zeros(math.prod(shape), np.uint64)
    number = numpy_philox([position, zero, zero, zero], key)[0] >> np.uint64(8)
    return (number.reshape(shape) >= RATE * 2**24) / (1 - RATE)


def agree(got, want):
    """Compares f16 results up to a few rounding errors."""
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one.view(np.float16).astype(np.float64), other, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("name", CASES)
def test_the_forward_pattern(name):
    function, extra, added, is_causal = CASES[name]
    q, k, v, dy = operands()
    module = lower(function, q, k, v, *extra)
    program = read_program(module)
    assert any("attention" in s for s in program.sources)
    assert ("tl.where((columns" in program.text or "<= rows" in program.text) == is_causal
    agree(interpret_program(program, q, k, v, *extra), expected(q, k, v, dy, added)[:1])


@pytest.mark.parametrize("name", CASES)
def test_the_backward_pattern(name):
    function, extra, added, _ = CASES[name]

    def gradients(q, k, v, dy, *rest):
        out, pull = function(q, k, v, *rest), lambda *x: (function(*x, *rest) * dy).to(flow.float32).sum()
        return (out, *flow.grad(pull, argnums=(0, 1, 2))(q, k, v))

    q, k, v, dy = operands()
    program = read_program(lower(gradients, q, k, v, dy, *extra))
    assert {"oneflow_attention_grad_1", "oneflow_attention_grad_2"} <= set(program.sources)
    assert f"{LENGTH}x{SIZE}" not in program.plan
    agree(interpret_program(program, q, k, v, dy, *extra), expected(q, k, v, dy, added))


def test_dropout_draws_the_same_mask():
    """Forward and backward; no mask is in memory."""
    q, k, v, dy = operands()
    whole = flow.value_and_grad(lambda *x: (dropped(*x) * dy).to(flow.float32).sum(), argnums=(0, 1, 2))
    program = read_program(lower(whole, q, k, v))
    assert f"{BATCH * HEADS * LENGTH * SIZE}" not in program.plan and "dropout" not in program.text
    got = interpret_program(program, q, k, v)
    want = expected(q, k, v, dy, None, multipliers(program))
    np.testing.assert_allclose(got[0], (want[0] * dy).sum(), rtol=1e-2)
    agree(got[1:], want[1:])


@pytest.mark.parametrize("function", [dropped, causal, biased])
def test_kernels_compile_for_a_device(function):
    extra = [BIAS] if function is biased else []
    loss = flow.grad(lambda *x: function(*x).to(flow.float32).square().sum(), argnums=(0, 1, 2))
    sources = read_program(lower(loss, *operands()[:3], *extra)).sources
    names = [n for n in sources if "attention" in n]
    assert len(names) == 3 and all(compile_source(sources[n]).cubin[:4] == b"\x7fELF" for n in names)


def test_a_second_gradient_does_not_match():
    """Another user of the weights keeps the weights in memory."""

    def twice(q, k, v):
        first = flow.grad(lambda x: plain(x, k, v).to(flow.float32).square().sum())
        return flow.grad(lambda x: first(x).to(flow.float32).square().sum())(q)

    q, k, v, _ = operands()
    text = str(lower(twice, q, k, v, passes="builtin.module(oneflow-canonicalize,cse,oneflow-recognize-attention)"))
    assert "oneflow.softmax" in text and "oneflow.attention" not in text


@pytest.mark.parametrize("rank", [2, 3])
def test_other_ranks_have_axes_of_size_1(rank):
    """Forward and backward."""

    def gradients(q, k, v, dy):
        return plain(q, k, v), *flow.grad(lambda *x: (plain(*x) * dy).to(flow.float32).sum(), argnums=(0, 1, 2))(
            q, k, v
        )

    given = [x.reshape(-1, *x.shape[2:])[0 if rank == 2 else slice(None)] for x in operands()]
    program = read_program(lower(gradients, *given))
    assert {"oneflow_attention_0", "oneflow_attention_grad_1", "oneflow_attention_grad_2"} <= set(program.sources)
    want = expected(*[*(x.reshape(1, -1, *x.shape[-2:]) for x in given), None])
    agree(
        interpret_program(program, *given),
        [x.reshape(g.shape) for x, g in zip(want, (given[0], *given[:3]), strict=True)],
    )


def test_consecutive_layers_match():
    q, k, v, dy = operands()
    program = read_program(lower(lambda q, k, v: plain(plain(q, k, v), k, v), q, k, v))
    assert program.plan.count("attention") == 2 and len(program.sources) == 1
    first = expected(q, k, v, dy, None)[0].astype(np.float16)
    agree(interpret_program(program, q, k, v), expected(first, k, v, dy, None)[:1])


SHARE = 3


def repeated_by_expand(x):
    """Each key head is repeated for every query head of the group."""
    batch, groups, length, width = x.shape
    spread = x.unsqueeze(2).expand(batch, groups, SHARE, length, width)
    return spread.reshape(batch, groups * SHARE, length, width)


def one_by_one(x):
    batch, groups, length, width = x.shape
    return x[:, :, None].repeat(1, 1, SHARE, 1, 1).reshape(batch, groups * SHARE, length, width)


def interleaved(x):
    """All heads, then all heads again: query heads that share a key head are not neighbours."""
    return x.repeat(1, SHARE, 1, 1)


@pytest.mark.parametrize(("repeat", "shares"), [(repeated_by_expand, True), (one_by_one, True), (interleaved, False)])
def test_grouped_query_attention(repeat, shares):
    """Forward and backward; the kernel sums gradients over the heads that share a key head."""

    def function(q, k, v, dy):
        pull = lambda q, k, v: (causal(q, repeat(k), repeat(v)) * dy).to(flow.float32).sum()  # noqa: E731
        return causal(q, repeat(k), repeat(v)), *flow.grad(pull, argnums=(0, 1, 2))(q, k, v)

    _, k, v, _ = operands()
    rng = np.random.default_rng(7)
    q, dy = (rng.standard_normal((BATCH, HEADS * SHARE, LENGTH, WIDTH)).astype(np.float16) for _ in range(2))
    program = read_program(lower(function, q, k, v, dy))
    assert {"oneflow_attention_grad_1", "oneflow_attention_grad_2"} <= set(program.sources)
    assert ("head // 3" in program.text) == shares
    lay = (lambda x: np.repeat(x, SHARE, 1)) if shares else (lambda x: np.tile(x, (1, SHARE, 1, 1)))
    out, dq, *wide = expected(q, lay(k), lay(v), dy, np.where(LATER, -np.inf, 0))
    split = (BATCH, HEADS, SHARE, LENGTH, WIDTH) if shares else (BATCH, SHARE, HEADS, LENGTH, WIDTH)
    sums = [x.reshape(split).sum(2 if shares else 1) for x in wide]
    agree(interpret_program(program, q, k, v, dy), [out, dq, *sums])


@pytest.mark.parametrize("number", [-6.5e4, -1e4])
def test_wholly_masked_rows(number):
    """A finite number gives equal weights, -inf NaN: a mask from data does not become the operator's."""
    q, k, v, _ = operands()
    mask = np.ones((BATCH, 1, LENGTH, SIZE), np.bool_)
    program = read_program(lower(functools.partial(padded, number=number), q, k, v, mask))
    assert not any("attention" in s for s in program.sources)
    agree(
        interpret_program(program, q, k, v, mask),
        [np.broadcast_to(v.astype(np.float64).mean(2)[:, :, None], q.shape)],
    )


def test_padded_rows_with_a_finite_causal_mask():
    q, k, v, _ = operands()
    mask = np.zeros((BATCH, 1, 1, SIZE), np.bool_)
    mask[..., :4] = True
    program = read_program(lower(finite_and_padded, q, k, v, mask))
    assert not any("attention" in s for s in program.sources)
    first = v[:, :, 4:].astype(np.float64).mean(2)
    agree([x[:, :, 0] for x in (a.reshape(q.shape) for a in interpret_program(program, q, k, v, mask))], [first])
