"""Attention on views: transposed, sliced and reshaped operands and results, against NumPy in f64."""

import math

import numpy as np
import pytest
from each_case import by_operator, each
from samples import SAMPLES

import oneflow as flow
from oneflow.dialect._mlir import ir
from oneflow.dialect.numpy_builder import run_reference
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.record import REGISTRY, flatten
from oneflow.lowering.pipelines import pipeline_between
from oneflow.lowering.triton.codegen.views import View, Views
from oneflow.lowering.triton.launch.program import read_program
from oneflow.passes.pipeline import Pipeline
from oneflow.runtime.cuda.compiler import compile_source
from oneflow.testing.backend import call_module
from oneflow.testing.checks import make_call
from oneflow.testing.triton_interpreter import interpret_program


@pytest.fixture(autouse=True)
def without_horizontal_fusion(change_gpu):
    """Without horizontal fusion, so that kernels can be counted as launches."""
    change_gpu(launches={"max_fused_entry_calls": 0})


F = flow.nn.functional
WHOLE = pipeline_between(None, "triton")


def elements_of(view, array):
    """The elements of an array that a view has, by positions: NumPy's `as_strided` takes no floats of 8 bits."""
    positions = np.arange(array.size)
    strides = [n * positions.itemsize for n in view.strides]
    at = np.lib.stride_tricks.as_strided(positions[view.first :], view.shape, strides)
    return np.ascontiguousarray(array).reshape(-1)[at]


@pytest.mark.parametrize(
    "shape,perm,target",
    [
        ((2, 6, 4), (0, 1, 2), (12, 4)),
        ((2, 6, 4), (0, 1, 2), (2, 3, 2, 2, 2)),
        ((2, 6, 4), (1, 0, 2), (3, 2, 2, 4)),
        ((2, 6, 4), (0, 2, 1), (2, 2, 2, 6)),
        ((2, 1, 4), (1, 0, 2), (1, 8, 1)),
        ((1, 1), (1, 0), (1,)),
    ],
)
def test_reshapes_without_a_copy(shape, perm, target):
    array = np.arange(math.prod(shape)).reshape(shape)
    view = View.contiguous(shape).permuted(perm).reshaped(target)
    np.testing.assert_array_equal(elements_of(view, array), array.transpose(perm).reshape(target))


@pytest.mark.parametrize("target", [(8,), (2, 4), (4, 2), (1, 8)])
def test_a_reshape_that_copies_is_no_view(target):
    view = View.contiguous((2, 4)).permuted((1, 0))
    assert (view.reshaped(target) is None) == (target != (4, 2))


def test_views_that_cover_a_tensor():
    whole = View.contiguous((2, 3, 4))
    assert whole.covers(24) and whole.permuted((2, 0, 1)).covers(24)
    assert not View((2, 3), (4, 1)).covers(8) and not View((2, 2), (0, 1)).covers(4)
    assert not View((2,), (1,), 1).covers(2)


def test_dimensions_of_size_1_have_strides_that_descriptors_take():
    view = View((1, 1, 6, 8), (0, 1, 8, 1), 16)
    assert view.is_vectorizable(2) and view.normalized == View((1, 1, 6, 8), (48, 48, 8, 1), 16)
    assert view.normalized.order == [0, 1, 2, 3]


@pytest.fixture(scope="module")
def context():
    return create_context()


SAMPLES_OF = by_operator(SAMPLES)


@pytest.mark.parametrize("name", SAMPLES_OF)
def test_views_are_the_results_of_operators(name, context):
    each([(s,) for s in SAMPLES_OF[name]], check_view, context)


def check_view(sample, context):
    """For every operator whose result is a view: the view has the elements of the reference."""
    op = make_call(sample, sample.arrays(sample.dtypes[0]), sample.attributes(sample.dtypes[0]), REGISTRY)
    with context, ir.Location.unknown():
        module = call_module(op, False)
        block = module.body.operations[0].regions[0].blocks[0]
        given = dict(zip(block.arguments, flatten(op.inputs.values()), strict=True))
        results = list(block.operations[len(block.operations) - 1].operands)
        found = [(n, *each) for n, r in enumerate(results) for each in Views(REGISTRY).sources(r)]
    for number, source, view in found:
        np.testing.assert_array_equal(elements_of(view, given[source]), np.asarray(run_reference(op)[number]))
    assert found or sample.op not in ("transpose", "narrow") or not np.asarray(run_reference(op)[0]).size


def lower(function, *arrays):
    module = flow.trace(function, *(flow.TensorSpec(a.shape, flow.float16) for a in arrays))
    with module.context, ir.Location.unknown():
        Pipeline.parse(WHOLE, module.context).run(module, REGISTRY)
    return read_program(module)


def operands(*shapes):
    rng = np.random.default_rng(7)
    return [rng.standard_normal(s).astype(np.float16) for s in shapes]


def expected(q, k, v, dy, causal, mask=None):
    """The result and the gradients of q, k and v, tensors (batch, heads, length, width)."""
    q, k, v, dy = (x.astype(np.float64) for x in (q, k, v, dy))
    share = q.shape[1] // k.shape[1]
    keys, values = (np.repeat(x, share, 1) for x in (k, v))
    scores = q @ keys.swapaxes(2, 3) / math.sqrt(q.shape[3]) + (0 if mask is None else mask)
    scores = np.where(np.tri(*scores.shape[2:], dtype=np.bool_), scores, -np.inf) if causal else scores
    e = np.exp(scores - scores.max(-1, keepdims=True))
    weights = e / e.sum(-1, keepdims=True)
    out = weights @ values
    slope = weights * (dy @ values.swapaxes(2, 3) - (dy * out).sum(-1, keepdims=True)) / math.sqrt(q.shape[3])

    def shared(x):
        return x.reshape(*k.shape[:2], share, *x.shape[2:]).sum(2)

    return out, slope @ keys, shared(slope.swapaxes(2, 3) @ q), shared(weights.swapaxes(2, 3) @ dy)


def agree(got, want):
    """Compares f16 results up to a few rounding errors."""
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one.view(np.float16).astype(np.float64), other, rtol=2e-2, atol=2e-2)


def both(function):
    """A function of operands and a cotangent that gives results and gradients."""

    def run(dy, *operands):
        out, pull = flow.vjp(function, *operands)
        gradients = pull(dy)
        return (out, *(gradients if isinstance(gradients, tuple) else (gradients,)))

    return run


#: Layouts of (batch, heads, length, width): the order of the dimensions in memory.
ORDERS = [(0, 2, 1, 3), (2, 0, 1, 3), (1, 0, 2, 3), (2, 1, 0, 3), (0, 1, 2, 3)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_transposed_operands_and_results(order, causal):
    """Several blocks, an odd length, a width that is not a power of two, and grouped-query attention."""
    batch, heads, groups, length, width = 2, 4, 2, 70, 24
    back = [order.index(i) for i in range(4)]
    logical = operands(*((batch, n, length, width) for n in (heads, heads, groups, groups)))
    dy, *given = (x.transpose(order) for x in logical)

    @both
    def attention(q, k, v):
        q, k, v = (x.permute(*back) for x in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal).permute(*order)

    program = lower(attention, dy, *given)
    assert "transpose" not in program.text
    want = expected(*[*logical[1:], logical[0], causal])
    agree(interpret_program(program, dy, *given), [x.transpose(order) for x in want])


@pytest.mark.parametrize("width", [8, 16, 64])
@pytest.mark.parametrize("length", [1, 33, 64])
def test_projections_of_heads(length, width):
    """A block of a model: heads are slices of one product, and the results are joined for the next product."""
    batch, heads = 2, 3
    shape = (batch, length, heads * width)
    logical = operands(*((batch, heads, length, width),) * 4)
    dy, q, k, v = (x.transpose(0, 2, 1, 3).reshape(shape) for x in logical)

    @both
    def attention(whole):
        parts = whole.split(heads * width, dim=2)
        q, k, v = (x.reshape(batch, length, heads, width).transpose(1, 2) for x in parts)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(*shape)

    whole = np.concatenate([q, k, v], 2)
    program = lower(attention, dy, whole)
    assert "transpose" not in program.text and "oneflow.narrow " not in program.text
    assert length == 1 or program.plan.count("run.launch") == 5
    assert program.plan.count(", in1, in1, in1, ") == 3
    out, *gradients = (x.transpose(0, 2, 1, 3).reshape(shape) for x in expected(*[*logical[1:], logical[0], True]))
    agree(interpret_program(program, dy, whole), [out, np.concatenate(gradients, 2)])


@pytest.mark.parametrize("together", [False, True])
def test_a_block_of_a_model_copies_nothing(together):
    """Products and attention, forward and backward: equal products are one launch, and what is read in parts stays in
    memory for as long.
    """
    batch, heads, length, width = 2, 2, 64, 64
    size = heads * width
    dy, x, *weights = operands(*((batch, length, size),) * 2, *((size, size),) * 4)
    weights = [(w / math.sqrt(size)).astype(np.float16) for w in weights]
    weights = [np.concatenate(weights[:3], 1), weights[3]] if together else weights

    @both
    def block(x, *weights):
        parts = [flow.matmul(x, w) for w in weights[:-1]]
        parts = parts[0].split(size, dim=2) if together else parts
        q, k, v = (x.reshape(batch, length, heads, width).transpose(1, 2) for x in parts)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return flow.matmul(out.transpose(1, 2).reshape(batch, length, size), weights[-1])

    program = lower(block, dy, x, *weights)
    kernels = [n for n in program.plan.split() if n.startswith('run.launch("')]
    assert len(kernels) == (11 if together else 9) and sum("attention" in n for n in kernels) == 3
    assert "transpose" not in program.text
    want = [np.asarray(y) for y in flow.compile(block)(dy, x, *weights)]
    agree(interpret_program(program, dy, x, *weights), want)


@pytest.mark.parametrize(("length", "width", "groups"), [(33, 16, 2), (130, 24, 1), (70, 8, 4)])
def test_gradients_of_biases_come_from_attention(length, width, groups):
    """Projections with biases, whose gradients are sums over batch and positions; grouped-query attention."""
    batch, heads = 2, 4
    sizes = [n * width for n in (heads, heads, groups, groups)]
    dy, *given = operands(*((batch, length, size) for size in sizes))
    biases = operands(*((size,) for size in sizes[1:]))

    @both
    def attention(*operands):
        projected = [x + b for x, b in zip(operands[:3], operands[3:], strict=True)]
        q, k, v = (x.reshape(batch, length, -1, width).transpose(1, 2) for x in projected)
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, sizes[0])

    program = lower(attention, dy, *given, *biases)
    large = [s for s in program.sources.values() if "reduce_sum" in s.text and f"{batch * length}" in s.text]
    assert not large and program.text.count("tl.sum(tl.where((") == 3
    projected = [(x + b).reshape(batch, length, -1, width).swapaxes(1, 2) for x, b in zip(given, biases, strict=True)]
    want = expected(*[*projected, dy.reshape(batch, length, heads, width).swapaxes(1, 2), False])
    want = [x.swapaxes(1, 2).reshape(batch, length, -1) for x in want]
    got = interpret_program(program, dy, *given, *biases)
    agree(got[:4], want)
    for one, other in zip(got[4:], want[1:], strict=True):
        np.testing.assert_allclose(one.view(np.float16), other.sum((0, 1)), rtol=2e-2, atol=5e-2)


def test_packed_heads():
    """(batch, length, heads, 3, width), and a mask that is sliced, transposed and broadcast."""
    batch, heads, length, width = 2, 2, 40, 16
    whole, dy, mask = operands((batch, length, heads, 3, width), (batch, length, heads, width), (50, 1, length))

    def attention(whole, mask):
        q, k, v = (whole[:, :, :, i].transpose(1, 2) for i in range(3))
        seen = mask[5 : 5 + length].permute(1, 2, 0).expand(batch, heads, length, length)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen).transpose(1, 2)

    program = lower(attention, whole, mask)
    assert program.plan.count("run.launch") == 1
    q, k, v = (whole[:, :, :, i].swapaxes(1, 2) for i in range(3))
    want = expected(q, k, v, dy.swapaxes(1, 2), False, mask[5 : 5 + length, 0].T.astype(np.float64))
    agree(interpret_program(program, whole, mask), [want[0].swapaxes(1, 2)])


def test_views_in_recognized_attention():
    """Products and a softmax with a causal mask, of heads that are slices of one product."""
    batch, heads, length, width = 2, 2, 40, 16
    size = heads * width
    dy, whole = operands((batch, length, size), (batch, length, 3 * size))

    @both
    def attention(whole):
        parts = whole.split(size, dim=2)
        q, k, v = (x.reshape(batch, length, heads, width).transpose(1, 2) for x in parts)
        scores = flow.matmul(q, k.transpose(-2, -1)) / math.sqrt(width)
        seen = flow.tril(flow.ones(length, length))
        weights = flow.softmax(scores.masked_fill(seen == 0, float("-inf")), -1)
        return flow.matmul(weights, v).transpose(1, 2).reshape(batch, length, size)

    program = lower(attention, dy, whole)
    assert program.plan.count("run.launch") == 5 and program.plan.count("attention") == 3
    logical = [x.reshape(batch, length, heads, width).swapaxes(1, 2) for x in (*np.split(whole, 3, 2), dy)]
    want = [x.swapaxes(1, 2).reshape(batch, length, size) for x in expected(*[*logical, True])]
    agree(interpret_program(program, dy, whole), [want[0], np.concatenate(want[1:], 2)])


def test_dropout_is_independent_of_layout():
    """The dropout mask is by position of the weights, not of memory: results are equal bit for bit."""
    batch, heads, length, width = 2, 2, 40, 16
    given = operands(*((batch, heads, length, width),) * 4)

    def attention(turn):
        def run(dy, *operands):
            def inner(q, k, v):
                out = F.scaled_dot_product_attention(turn(q), turn(k), turn(v), dropout_p=0.25)
                return turn(out)

            flow.manual_seed(3)
            out, pull = flow.vjp(inner, *operands)
            return (out, *pull(dy))

        return run

    turned = [np.ascontiguousarray(x.swapaxes(1, 2)) for x in given]
    plain, viewed = lower(attention(lambda x: x), *given), lower(attention(lambda x: x.transpose(1, 2)), *turned)
    assert ", 16, 32, 1]" in viewed.text and ", 16, 32, 1]" not in plain.text and "philox_bits(" in viewed.text
    for one, other in zip(interpret_program(plain, *given), interpret_program(viewed, *turned), strict=True):
        np.testing.assert_array_equal(one, other.swapaxes(1, 2))


def test_unaligned_rows_are_copied():
    """An odd stride, and a width that is not contiguous."""
    batch, heads, length, width = 1, 2, 20, 16
    odd, turned, v = operands(
        (batch, length, 2 * width + 1), (batch, heads, width, length), (batch, heads, length, width)
    )

    def attention(odd, turned, v):
        q = odd[:, :, 1:].reshape(batch, length, heads, width).transpose(1, 2)
        return F.scaled_dot_product_attention(q, turned.transpose(2, 3), v)

    q = odd[:, :, 1:].reshape(batch, length, heads, width).swapaxes(1, 2)
    want = expected(q, turned.swapaxes(2, 3), v, v, False)[0]
    program = lower(attention, odd, turned, v)
    assert program.plan.count("run.launch") == 3
    agree(interpret_program(program, odd, turned, v), [want])


def test_a_returned_result_keeps_its_layout():
    q, k, v = operands(*((2, 2, 20, 16),) * 3)

    def attention(q, k, v):
        out = F.scaled_dot_product_attention(q, k, v)
        return out, out.transpose(1, 2)

    want = expected(q, k, v, q, False)[0]
    agree(interpret_program(lower(attention, q, k, v), q, k, v), [want, want.swapaxes(1, 2)])


def test_attention_reads_a_tensor_before_its_update():
    """An argument that attention reads through a view is donated only after that."""
    batch, heads, length, width = 1, 2, 20, 16
    text = f"""
    func.func @main(%x: tensor<{length}x{heads}x{width}xf16> {{oneflow.donated = 0 : i64}}) ->
        (tensor<{length}x{heads}x{width}xf16>, tensor<{batch}x{heads}x{length}x{width}xf16>) {{
      %y = "oneflow.negative"(%x) : (tensor<{length}x{heads}x{width}xf16>) -> tensor<{length}x{heads}x{width}xf16>
      %t = "oneflow.transpose"(%x) {{perm = [1, 0, 2]}} :
        (tensor<{length}x{heads}x{width}xf16>) -> tensor<{heads}x{length}x{width}xf16>
      %q = "oneflow.reshape"(%t) {{shape = [{batch}, {heads}, {length}, {width}]}} :
        (tensor<{heads}x{length}x{width}xf16>) -> tensor<{batch}x{heads}x{length}x{width}xf16>
      %0, %1 = "oneflow.attention"(%q, %q, %q) {{
        scale = {1 / math.sqrt(width)} : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>}} :
        (tensor<{batch}x{heads}x{length}x{width}xf16>, tensor<{batch}x{heads}x{length}x{width}xf16>,
         tensor<{batch}x{heads}x{length}x{width}xf16>)
        -> (tensor<{batch}x{heads}x{length}x{width}xf16>, tensor<{batch}x{heads}x{length}xf32>)
      return %y, %0 : tensor<{length}x{heads}x{width}xf16>, tensor<{batch}x{heads}x{length}x{width}xf16>
    }}"""
    with create_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        Pipeline.parse(WHOLE, module.context).run(module, REGISTRY)
        program = read_program(module)
    assert "run.donated(0, 0" in program.plan and 'oneflow_attention_0", in0, in0, in0' in program.plan
    (x,) = operands((length, heads, width))
    q = x.swapaxes(0, 1)[None]
    agree(interpret_program(program, x), [-x.astype(np.float64), expected(q, q, q, q, False)[0]])


@pytest.mark.parametrize("biased", [False, True])
def test_kernels_compile_for_a_device(biased):
    """With all views: slices of one product, results and partial sums for the next."""
    batch, heads, length, width = 2, 2, 128, 64
    size = heads * width
    dy, whole, *biases = operands((batch, length, size), (batch, length, 3 * size), *((size,),) * (3 * biased))

    @both
    def attention(whole, *biases):
        parts = whole.split(size, dim=2)
        parts = [x + b for x, b in zip(parts, biases, strict=True)] if biased else parts
        q, k, v = (x.reshape(batch, length, heads, width).transpose(1, 2) for x in parts)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return out.transpose(1, 2).reshape(batch, length, size)

    sources = lower(attention, dy, whole, *biases).sources
    names = [n for n in sources if "attention" in n]
    assert len(names) == 3 and sum(sources[n].text.count("tl.sum(tl.where((") for n in names) == 3 * biased
    assert all(compile_source(sources[n]).cubin[:4] == b"\x7fELF" for n in names)
