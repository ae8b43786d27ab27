"""Kernels of several blocks: grids, loops over rows, column reductions, tiled products, scatters."""

import re

import ml_dtypes
import numpy as np
import pytest

from oneflow.dialect import ops  # noqa: F401
from oneflow.dialect._mlir import ir
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.dialect.record import REGISTRY
from oneflow.lowering.pipelines import pipeline_between
from oneflow.lowering.triton.launch.program import read_program
from oneflow.passes.pipeline import Pipeline
from oneflow.runtime.cuda.compiler import compile_source
from oneflow.runtime.executable import OutOfBoundsError, SizeError
from oneflow.testing.interpreter import interpret
from oneflow.testing.triton_interpreter import interpret_program

NORMAL = np.random.default_rng(3).standard_normal


def lower(text, options=""):
    context = create_context()
    module = read_module(text, context)
    with context, ir.Location.unknown():
        passes = pipeline_between(None, "triton").replace("oneflow-emit-triton", f"oneflow-emit-triton{options}")
        Pipeline.parse(passes, context).run(module, REGISTRY)
        return read_program(module)


def unary(op, shape, attributes="", element="f32", result=None, dynamic=False):
    kind = "x".join([*("?" if dynamic else str(s) for s in shape), element])
    made = f"tensor<{result or kind}>"
    return f"""func.func @main(%x: tensor<{kind}>) -> {made} {{
      %0 = "oneflow.{op}"(%x) {{{attributes}}} : (tensor<{kind}>) -> {made}
      return %0 : {made}
    }}"""


def check(text, *arrays, rtol=1e-5, atol=1e-5, options=""):
    program = lower(text, options)
    got = interpret_program(program, *arrays)
    want = interpret(read_module(text, create_context()), "main", *arrays)
    for one, other in zip(got, want, strict=True):
        one = one.view(other.dtype) if one.dtype.itemsize == other.dtype.itemsize else one
        np.testing.assert_allclose(one.astype(np.float64), other.astype(np.float64), rtol, atol)
    return program


def floats(*shape):
    return NORMAL(shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(3, 1000), (5, 2048), (2, 3, 700)], ids=str)
@pytest.mark.parametrize("dynamic", [False, True])
def test_softmax(shape, dynamic):
    check(unary("softmax", shape, dynamic=dynamic), floats(*shape))


@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_row_that_exceeds_the_registers_is_read_in_chunks(element):
    """Only the last chunk has a mask. Stores evict first, since the row is read again."""
    x = floats(2, 40000).astype(np.float32 if element == "f32" else ml_dtypes.bfloat16)
    program = check(unary("softmax", x.shape, element=element), x, rtol=1e-5 if element == "f32" else 1e-2)
    (text,) = (s.text for s in program.sources.values())
    for loop in ("range(0, 32768, 8192)", "range(32768, 40000, 8192)"):
        assert text.count(f"for r_at in {loop}:") == 2
    first, last = text.split("range(32768, 40000, 8192)")[:2]
    assert "< 40000" not in first and "< 40000" in last
    stores = [line for line in text.splitlines() if "tl.store" in line]
    assert all('"evict_first"' in line for line in stores) and len(stores) == 2


@pytest.mark.parametrize(("rows", "marked"), [(65536, 1), (4096, 0)])
def test_tensor_that_exceeds_the_cache_is_streamed(rows, marked):
    """Partial sums are not streamed: the next kernel reads the partial sums."""
    text = unary("reduce_sum", (rows, 1024), "axis = [0 : si32], keepdims = false", result="1024xf32")
    first, last = (s.text for s in lower(text).sources.values())
    assert first.count('eviction_policy="evict_first"') == marked and "eviction" not in last


@pytest.mark.parametrize(
    ("op", "size", "element", "warps", "blocks"),
    [("softmax", 16384, "f32", 16, False), ("softmax", 32768, "f32", 32, False), ("softmax", 32768, "bf16", 8, True),
     ("layer_norm", 32768, "f32", 32, False), ("layer_norm", 32768, "bf16", 16, False)],
)  # fmt: skip
def test_long_rows_have_more_warps_or_are_read_in_chunks(op, size, element, warps, blocks):
    kind, attributes = f"2x{size}x{element}", "begin_norm_axis = 1 : si64, epsilon = 1.0e-05 : f64"
    row = op == "layer_norm"
    program = lower(f"""func.func @main(%x: tensor<{kind}>) -> tensor<{kind}> {{
      %0{":3" if row else ""} = "oneflow.{op}"(%x) {{{attributes if row else ""}}} : (tensor<{kind}>)
        -> {f"(tensor<{kind}>, tensor<2xf32>, tensor<2xf32>)" if row else f"tensor<{kind}>"}
      return %0{"#0" if row else ""} : tensor<{kind}>
    }}""")
    (source,) = program.sources.values()
    assert (source.warps, "for r_at" in source.text) == (warps, blocks)


def test_maximum_propagates_nan():
    x = floats(4, 5000)
    x[1, 4999] = np.nan
    (got,) = interpret_program(lower(unary("softmax", x.shape)), x)
    assert np.isnan(got[1]).all() and not np.isnan(got[[0, 2, 3]]).any()


@pytest.mark.parametrize(("axis", "result"), [(0, "130xf32"), (1, "70xf32")])
@pytest.mark.parametrize("op", ["reduce_sum", "reduce_max"])
def test_reduction(op, axis, result):
    attributes = f"axis = [{axis} : si32], keepdims = false"
    check(unary(op, (70, 130), attributes, result=result), floats(70, 130))


def test_epilogue_of_a_full_reduction_is_fused():
    text = """func.func @main(%x: tensor<70xf32>) -> (tensor<f32>, tensor<f32>) {
      %0 = "oneflow.reduce_sum"(%x) {axis = [0 : si32], keepdims = false} : (tensor<70xf32>) -> tensor<f32>
      %1 = "oneflow.exp"(%0) : (tensor<f32>) -> tensor<f32>
      return %0, %1 : tensor<f32>, tensor<f32>
    }"""
    assert check(text, floats(70) / 70).plan.count("run.launch") == 1


def test_full_reduction():
    x = floats(70, 130)
    attributes = "axis = [0 : si32, 1 : si32], keepdims = false"
    check(unary("reduce_sum", x.shape, attributes, result="f32"), x, atol=1e-3)


@pytest.mark.parametrize("shape", [(3, 5000), (40000,)], ids=str)
def test_cumulative_sum(shape):
    x = np.random.default_rng(0).integers(-3, 4, shape).astype(np.float32)
    check(unary("cumsum", shape, f"dim = {len(shape) - 1} : si64"), x)


@pytest.mark.parametrize("size", [5000, 40000])
def test_argmax(size):
    """The first of equal elements wins, and the first NaN."""
    x = np.random.default_rng(0).integers(0, 50, (3, size)).astype(np.float32)
    x[1, [70, size - 1]] = np.nan
    x[2] = -np.inf
    check(unary("argmax", x.shape, result="3xi64"), x)


@pytest.mark.parametrize("size", [2**31 - 1, 2**31 + 16, 2**32 + 16])
def test_loop_of_more_than_2_to_the_31_steps_counts_in_64_bits(size):
    """The PTX has a conditional branch: the loop is not taken for an empty one."""
    (source,) = lower(unary("argmax", (size,), result="i64")).sources.values()
    assert f"range(0, tl.full((), {size}, tl.int64), 4096)" in source.text
    assert re.search(r"@%p\d+ bra", compile_source(source).ptx)


@pytest.mark.parametrize("op", ["reduce_max", "reduce_min"])
def test_maximum_and_minimum_of_unsigned_integers(op):
    x = np.random.default_rng(0).integers(0, 256, (3, 500)).astype(np.uint8)
    attributes = "axis = [1 : si32], keepdims = false"
    check(unary(op, x.shape, attributes, "ui8", "3xui8"), x)


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0), (0, 2, 1)], ids=str)
def test_transpose(order):
    shape = (30, 17, 20)
    result = "x".join(str(shape[i]) for i in order) + "xf32"
    attributes = f"perm = [{', '.join(f'{i} : si32' for i in order)}]"
    check(unary("transpose", shape, attributes, result=result), floats(*shape))


def product(left, right, flags="", element="f32", batch=()):
    rows, columns = (
        left[-1 if "transpose_a = true" in flags else -2],
        right[-2 if "transpose_b = true" in flags else -1],
    )
    a, b, c = ("x".join([*map(str, s), element]) for s in (left, right, (*batch, rows, columns)))
    op = "batch_matmul" if batch else "matmul"
    return f"""func.func @main(%a: tensor<{a}>, %b: tensor<{b}>) -> tensor<{c}> {{
      %0 = "oneflow.{op}"(%a, %b) {{{flags}}} : (tensor<{a}>, tensor<{b}>) -> tensor<{c}>
      return %0 : tensor<{c}>
    }}"""


@pytest.mark.parametrize("flip_a", [False, True])
@pytest.mark.parametrize("flip_b", [False, True])
def test_product(flip_a, flip_b):
    left, right = (150, 70), (70, 90)
    left, right = left[::-1] if flip_a else left, right[::-1] if flip_b else right
    flags = f"transpose_a = {str(flip_a).lower()}, transpose_b = {str(flip_b).lower()}"
    program = check(product(left, right, flags), floats(*left), floats(*right), atol=1e-4)
    assert ('input_precision="ieee"' in program.text) == (flip_a or not flip_b)


def test_f16_product_accumulates_in_f32():
    a, b = (floats(*s).astype(np.float16) for s in ((33, 500), (500, 20)))
    program = lower(product(a.shape, b.shape, element="f16"))
    (got,) = interpret_program(program, a, b)
    np.testing.assert_allclose(got.astype(np.float32), a.astype(np.float32) @ b.astype(np.float32), 2e-3, 2e-2)
    assert "tl.float32)" in program.text


def test_batched_product():
    check(product((3, 40, 33), (3, 33, 50), batch=(3,)), floats(3, 40, 33), floats(3, 33, 50), atol=1e-4)


def test_masked_lanes_of_the_depth_do_not_add_infinities():
    a, b = floats(20, 33), floats(33, 20)
    a[3, 5] = np.inf
    check(product(a.shape, b.shape), a, b, atol=1e-4)


LINEAR = """func.func @main(%x: tensor<70x48xf32>, %w: tensor<80x48xf32>, %b: tensor<80xf32>) -> tensor<70x80xf32> {
  %0 = "oneflow.matmul"(%x, %w) {transpose_b = true} : (tensor<70x48xf32>, tensor<80x48xf32>) -> tensor<70x80xf32>
  %1 = "oneflow.broadcast_add"(%0, %b) : (tensor<70x80xf32>, tensor<80xf32>) -> tensor<70x80xf32>
  %2 = "oneflow.gelu"(%1) : (tensor<70x80xf32>) -> tensor<70x80xf32>
  return %2 : tensor<70x80xf32>
}"""


def test_bias_and_activation_are_an_epilogue():
    program = check(LINEAR, floats(70, 48), floats(80, 48), floats(80), atol=1e-4)
    assert len(program.sources) == 1


def test_source_names_the_operators_of_a_kernel():
    program = check(LINEAR, floats(70, 48), floats(80, 48), floats(80), atol=1e-4)
    (source,) = program.sources.values()
    wanted = dict.fromkeys(f"oneflow.{name}" for name in re.findall(r'"oneflow\.(\w+)"', LINEAR))
    assert [line.split()[1] for line in source.text.splitlines() if line.startswith("# oneflow.")] == list(wanted)
    chain = unary("relu", (40, 5)).replace("%0 =", '%a = "oneflow.square"(%x) : (X) -> X\n%0 =', 1)
    program = check(chain.replace('relu"(%x)', 'relu"(%a)').replace("X", "tensor<40x5xf32>"), floats(40, 5))
    (source,) = program.sources.values()
    assert source.text.startswith("# oneflow.square") and source.text.splitlines()[1].startswith("# oneflow.relu")


SCATTER = """func.func @main(%x: tensor<600x7xf32>, %i: tensor<600xi32>) -> tensor<5x7xf32> {
  %0 = "oneflow.unsorted_segment_sum"(%x, %i) {axis = 0 : si64, num_segments = 5 : si64}
       : (tensor<600x7xf32>, tensor<600xi32>) -> tensor<5x7xf32>
  return %0 : tensor<5x7xf32>
}"""


@pytest.mark.parametrize(("options", "call"), [("", "tl.atomic_add"), ("{deterministic=true}", "tl.debug_barrier")])
def test_scatter(options, call):
    ids = np.random.default_rng(1).integers(0, 5, 600).astype(np.int32)
    program = check(SCATTER, floats(600, 7), ids, options=options, atol=1e-4)
    assert call in program.text


GATHER = """func.func @main(%x: tensor<5x300xf32>, %i: tensor<9xi64>) -> tensor<9x300xf32> {
  %0 = "oneflow.gather"(%x, %i) {axis = 0 : si64} : (tensor<5x300xf32>, tensor<9xi64>) -> tensor<9x300xf32>
  return %0 : tensor<9x300xf32>
}"""


def test_position_out_of_range_is_an_error():
    x, ids = floats(5, 300), np.arange(9) % 5
    check(GATHER, x, ids)
    ids[7] = 12
    with pytest.raises(OutOfBoundsError, match=r"oneflow.gather: indices .*expected an index in \[0, 5\), got 12"):
        interpret_program(lower(GATHER), x, ids)


ADD = """func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %0 = "oneflow.broadcast_add"(%x, %y) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}"""


def test_different_dynamic_sizes_are_an_error():
    with pytest.raises(SizeError, match="expected 4, got 3"):
        interpret_program(lower(ADD), floats(4), floats(3))


CHAIN = """func.func @main(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %0 = "oneflow.tanh"(%x) : (tensor<?x?xf32>) -> tensor<?x?xf32>
  %1 = "oneflow.transpose"(%0) {perm = [1 : si32, 0 : si32]} : (tensor<?x?xf32>) -> tensor<?x?xf32>
  %2 = "oneflow.matmul"(%0, %1) : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
  %3 = "oneflow.softmax"(%2) : (tensor<?x?xf32>) -> tensor<?x?xf32>
  return %3 : tensor<?x?xf32>
}"""


def test_plan_runs_with_several_sizes():
    program = lower(CHAIN)
    for shape in ((3, 5), (1, 1), (40, 70)):
        x = floats(*shape)
        y = np.tanh(x) @ np.tanh(x).T
        e = np.exp(y - y.max(1, keepdims=True))
        np.testing.assert_allclose(interpret_program(program, x)[0], e / e.sum(1, keepdims=True), 1e-4, 1e-6)


@pytest.mark.parametrize("units", [(1,), (1, 1)], ids=str)
@pytest.mark.parametrize(("element", "wide"), [("f32", 96), ("bf16", 128)])
def test_products_with_unit_dimensions_use_dot(units, element, wide):
    lead = "x".join(map(str, units))
    x, w, b = f"tensor<{lead}x64x48x{element}>", f"tensor<48x{wide}x{element}>", f"tensor<{wide}x{element}>"
    y = f"tensor<{lead}x64x{wide}x{element}>"
    text = f"""func.func @main(%x: {x}, %w: {w}, %b: {b}) -> {y} {{
      %0 = "oneflow.broadcast_matmul"(%x, %w) : ({x}, {w}) -> {y}
      %1 = "oneflow.broadcast_add"(%0, %b) : ({y}, {b}) -> {y}
      return %1 : {y}
    }}"""
    kind = np.float32 if element == "f32" else ml_dtypes.bfloat16
    arrays = [floats(*shape).astype(kind) for shape in ((*units, 64, 48), (48, wide), (wide,))]
    program = check(text, *arrays, **({} if element == "f32" else {"rtol": 2e-2, "atol": 2e-2}))
    assert "tl.dot" in program.text


def test_descriptors_have_no_unit_dimensions():
    text = """func.func @main(%x: tensor<1x4096x1024xbf16>, %w: tensor<1024x4096xbf16>) -> tensor<1x4096x4096xbf16> {
      %0 = "oneflow.broadcast_matmul"(%x, %w)
        : (tensor<1x4096x1024xbf16>, tensor<1024x4096xbf16>) -> tensor<1x4096x4096xbf16>
      return %0 : tensor<1x4096x4096xbf16>
    }"""
    assert lower(text).text.count("tl.make_tensor_descriptor") == 3
    assert "[4096, 1024], [1024, 1]" in lower(text).text


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_half_precision_constants(element):
    kind = f"tensor<2x3x{element}>"
    text = f"""func.func @main(%x: {kind}) -> {kind} {{
      %c = arith.constant dense<[[1.0, 2.0, 3.5], [4.0, 0.1, -0.3]]> : {kind}
      %0 = "oneflow.broadcast_mul"(%x, %c) : ({kind}, {kind}) -> {kind}
      return %0 : {kind}
    }}"""
    half = np.float16 if element == "f16" else ml_dtypes.bfloat16
    (got,) = interpret_program(lower(text), np.ones((2, 3), half))
    wanted = np.array([[1.0, 2.0, 3.5], [4.0, 0.1, -0.3]], half)
    np.testing.assert_array_equal(got.view(np.uint16), wanted.view(np.uint16))


def loss(rows, classes, element):
    """The mean cross entropy and its gradient."""
    logits, row = f"tensor<{rows}x{classes}x{element}>", f"tensor<{rows}x{element}>"
    labels, one = f"tensor<{rows}xi64>", f"tensor<{element}>"
    return f"""func.func @main(%x: {logits}, %t: {labels}) -> ({one}, {logits}) {{
      %0 = "oneflow.log_softmax"(%x) : ({logits}) -> {logits}
      %1:2 = "oneflow.nll"(%0, %t) {{ignore_index = 7 : i64}} : ({logits}, {labels}) -> ({row}, {row})
      %2 = "oneflow.reduce_sum"(%1#0) {{axis = [0 : si32], keepdims = false}} : ({row}) -> {one}
      %3 = "oneflow.reduce_sum"(%1#1) {{axis = [0 : si32], keepdims = false}} : ({row}) -> {one}
      %4 = "oneflow.broadcast_div"(%2, %3) : ({one}, {one}) -> {one}
      %5 = "oneflow.reciprocal"(%3) : ({one}) -> {one}
      %6 = "oneflow.broadcast_like"(%5, %1#0) {{broadcast_axes = [0 : si32]}} : ({one}, {row}) -> {row}
      %7 = "oneflow.nll_grad"(%6, %0, %t) {{ignore_index = 7 : i64}} : ({row}, {logits}, {labels}) -> {logits}
      %8 = "oneflow.log_softmax_grad"(%0, %7) : ({logits}, {logits}) -> {logits}
      return %4, %8 : {one}, {logits}
    }}"""


@pytest.mark.parametrize(("element", "rtol"), [("f32", 1e-5), ("bf16", 2e-2)])
def test_loss_and_gradient_are_one_row_kernel(element, rtol):
    x = floats(140, 33000).astype({"f32": np.float32, "bf16": ml_dtypes.bfloat16}[element])
    labels = np.random.default_rng(5).integers(0, 33000, 140)
    labels[::9] = 7
    program = check(loss(140, 33000, element), x, labels, rtol=rtol, atol=1e-7)
    (text,) = [s.text for s in program.sources.values() if "tl.load(p0 + x1 * 33000 + r" in s.text]
    assert (
        text.count("tl.load(p0 + x1 * 33000 + r") == 2 * 2
    )  # Two passes, each with a loop without masks and one for the last chunk.
    assert sum(s.text.count("* 33000 + r") for s in program.sources.values()) == 2 * 3


def test_label_out_of_range_is_an_error():
    labels = np.full(140, 33000)
    with pytest.raises(OutOfBoundsError):
        interpret_program(lower(loss(140, 33000, "f32")), floats(140, 33000), labels)
