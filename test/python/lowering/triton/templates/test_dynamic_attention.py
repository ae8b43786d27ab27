"""Attention of dynamic sizes: one program with the attention kernels for all sizes."""

import numpy as np
import pytest

import oneflow as flow
from oneflow.dialect._mlir import ir
from oneflow.dialect.record import REGISTRY
from oneflow.lowering.pipelines import pipeline_between
from oneflow.lowering.triton.launch.program import read_program
from oneflow.passes.pipeline import Pipeline
from oneflow.runtime.cuda.compiler import compile_source
from oneflow.runtime.failures import SizeError
from oneflow.testing.triton_interpreter import interpret_program

HEADS, GROUPS, WIDTH = 4, 2, 16
SCALE = WIDTH**-0.5
#: Batch, queries and keys of the runs.
RUNS = [(1, 5, 7), (2, 70, 130), (1, 64, 64), (3, 129, 1)]
EMPTY = [(0, 5, 7), (2, 0, 7), (2, 5, 0)]
F = flow.nn.functional


def lower(function, *specs):
    module = flow.trace(function, *specs)
    with module.context, ir.Location.unknown():
        Pipeline.parse(pipeline_between(None, "triton"), module.context).run(module, REGISTRY)
    return read_program(module)


def spec(*shape, dtype=flow.float16):
    return flow.TensorSpec(shape, dtype)


def operands(batch, length, size, groups=HEADS):
    rng = np.random.default_rng(7)
    shapes = [(batch, HEADS, length, WIDTH), *[(batch, groups, size, WIDTH)] * 2, (batch, HEADS, length, WIDTH)]
    return [rng.standard_normal(s).astype(np.float16) for s in shapes]


def expected(q, k, v, dy, added=0.0):
    """The result and the gradients of q, k and v, with grouped-query attention."""
    groups, share = k.shape[1], q.shape[1] // k.shape[1]
    q, k, v, dy = (x.astype(np.float64) for x in (q, k, v, dy))
    k, v = (np.repeat(x, share, 1) for x in (k, v))
    scores = q @ k.swapaxes(2, 3) * SCALE + added
    e = np.exp(scores - scores.max(-1, keepdims=True, initial=-1e30))
    weights = e / e.sum(-1, keepdims=True)
    direct = dy @ v.swapaxes(2, 3)
    slope = weights * (direct - (weights * direct).sum(-1, keepdims=True)) * SCALE
    sums = (slope.swapaxes(2, 3) @ q, weights.swapaxes(2, 3) @ dy)
    return weights @ v, slope @ k, *(x.reshape(len(x), groups, share, *x.shape[2:]).sum(2) for x in sums)


def agree(got, want):
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one.view(np.float16).astype(np.float64), other, rtol=1e-2, atol=1e-2)


def later(length, size):
    return np.where(np.tri(length, size, dtype=np.bool_), 0.0, -np.inf)


def gradients(function):
    def both(q, k, v, dy):
        pull = lambda *x: (function(*x) * dy).to(flow.float32).sum()  # noqa: E731
        return function(q, k, v), *flow.grad(pull, argnums=(0, 1, 2))(q, k, v)

    return both


def operator(is_causal):
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)


QUERIES, KEYS, SHARED = (spec(None, n, None, WIDTH) for n in (HEADS, HEADS, GROUPS))


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("keys", "groups"), [(KEYS, HEADS), (SHARED, GROUPS)])
def test_the_operator_and_its_gradients(is_causal, keys, groups):
    program = lower(gradients(operator(is_causal)), QUERIES, keys, keys, QUERIES)
    assert {"oneflow_attention_0", "oneflow_attention_grad_1", "oneflow_attention_grad_2"} <= set(program.sources)
    for sizes in RUNS:
        given = operands(*sizes, groups)
        agree(interpret_program(program, *given), expected(*[*given, later(*sizes[1:]) if is_causal else 0.0]))


@pytest.mark.parametrize("sizes", EMPTY)
def test_empty_sizes(sizes):
    """Without keys the result of a query is 0, the empty sum."""
    program = lower(gradients(operator(False)), QUERIES, KEYS, KEYS, QUERIES)
    q, k, v, dy = operands(*sizes)
    for got, like in zip(interpret_program(program, q, k, v, dy), (q, q, k, v), strict=True):
        assert got.shape == like.shape and not got.view(np.float16).any()


def test_dropout():
    """A query with one key gets twice the key's value, or 0."""
    function = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=0.5, is_causal=True)  # noqa: E731
    program = lower(function, QUERIES, KEYS, KEYS)
    assert "oneflow_attention_0" in program.sources
    for sizes in RUNS:
        q, k, v, _ = operands(*sizes)
        first = interpret_program(program, q, k, v)[0].view(np.float16)[:, :, 0] / v[:, :, 0]
        np.testing.assert_allclose(first, np.where(first > 1, 2.0, 0.0), atol=1e-2)


def test_a_mask_of_dynamic_sizes():
    program = lower(
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m),
        QUERIES, KEYS, KEYS, spec(None, 1, 1, None),
    )  # fmt: skip
    assert "oneflow_attention_0" in program.sources
    for batch, length, size in RUNS:
        q, k, v, dy = operands(batch, length, size)
        mask = np.random.default_rng(1).standard_normal((batch, 1, 1, size)).astype(np.float16)
        agree(interpret_program(program, q, k, v, mask), expected(q, k, v, dy, mask.astype(np.float64))[:1])


@pytest.mark.parametrize(
    ("keys", "values", "text"), [((2, 7), (1, 7), "dimension 0 of key"), ((1, 7), (1, 9), "dimension 2 of value")]
)
def test_sizes_that_do_not_fit_raise(keys, values, text):
    program = lower(operator(False), QUERIES, KEYS, KEYS)
    q, _, _, _ = operands(1, 5, 7)
    k, v = (np.zeros((batch, HEADS, size, WIDTH), np.float16) for batch, size in (keys, values))
    with pytest.raises(SizeError, match=f"attention.*{text}"):
        interpret_program(program, q, k, v)


def test_kernels_compile_for_a_device():
    program = lower(gradients(operator(True)), QUERIES, SHARED, SHARED, QUERIES)
    names = [n for n in program.sources if "attention" in n]
    assert len(names) == 3 and all(compile_source(program.sources[n]).cubin[:4] == b"\x7fELF" for n in names)


def scores(q, k):
    return flow.matmul(q, k.transpose(-2, -1)) * SCALE


def plain(q, k, v):
    return flow.matmul(flow.softmax(scores(q, k), -1), v)


def masked(q, k, v, mask):
    return flow.matmul(flow.softmax(scores(q, k).masked_fill(mask, float("-inf")), -1), v)


def causal(q, k, v):
    """The mask has dynamic sizes too."""
    rows = flow.triu(flow.ones(q.shape[-2], k.shape[-2]), 1).to(flow.bool)
    return flow.matmul(flow.softmax(scores(q, k).masked_fill(rows, float("-inf")), -1), v)


def repeated(q, k, v):
    wide = [x[:, :, None].repeat(1, 1, HEADS // GROUPS, 1, 1).reshape(-1, HEADS, 40, WIDTH) for x in (k, v)]
    return plain(q, *wide)


@pytest.mark.parametrize("function", [plain, causal])
def test_recognized_attention_of_dynamic_sizes(function):
    program = lower(gradients(function), QUERIES, KEYS, KEYS, QUERIES)
    assert {"oneflow_attention_0", "oneflow_attention_grad_1", "oneflow_attention_grad_2"} <= set(program.sources)
    for sizes in RUNS:
        given = operands(*sizes)
        want = expected(*[*given, later(*sizes[1:]) if function is causal else 0.0])
        agree(interpret_program(program, *given), want)


def test_a_boolean_mask():
    program = lower(masked, QUERIES, KEYS, KEYS, spec(None, 1, 1, None, dtype=flow.bool))
    assert "oneflow_attention_0" in program.sources
    for batch, length, size in RUNS:
        q, k, v, dy = operands(batch, length, size)
        mask = np.arange(size)[None, None, None] > np.full((batch, 1, 1, 1), size // 2)
        agree(interpret_program(program, q, k, v, mask), expected(q, k, v, dy, np.where(mask, -np.inf, 0.0))[:1])


@pytest.mark.parametrize("rank", [2, 3])
def test_attention_of_other_ranks(rank):
    shapes = (None, None, WIDTH)[3 - rank :]
    program = lower(gradients(plain), *[spec(*shapes)] * 4)
    assert "oneflow_attention_0" in program.sources
    for batch, length, size in RUNS:
        whole = [x[:, :1] for x in operands(batch if rank == 3 else 1, length, size)]
        want = [x[:, 0] if rank == 3 else x[0, 0] for x in expected(*whole)]
        agree(interpret_program(program, *(x[:, 0] if rank == 3 else x[0, 0] for x in whole)), want)


def test_a_dynamic_batch_with_grouped_query_attention():
    shapes = [(None, HEADS, 40, WIDTH), *[(None, GROUPS, 40, WIDTH)] * 2, (None, HEADS, 40, WIDTH)]
    program = lower(gradients(repeated), *(spec(*s) for s in shapes))
    assert "oneflow_attention_0" in program.sources
    for batch in (1, 3):
        given = operands(batch, 40, 40, GROUPS)
        agree(interpret_program(program, *given), expected(*given))
