"""Reductions cut in two, products by descriptors, transposes in tiles: values against NumPy, by the interpreter."""

import ml_dtypes
import numpy as np
import pytest
from lowered import lower

from oneflow.dialect import ops  # noqa: F401
from oneflow.lowering.targets.choice import gpu_target
from oneflow.lowering.triton.codegen import matmul
from oneflow.lowering.triton.cost.matmul_configurations import (
    DESCRIBED,
    NARROW,
    Product,
    choose,
    microseconds,
    shares,
    split_depth,
    split_parts,
)
from oneflow.lowering.triton.fusion import split_reductions
from oneflow.runtime.cuda.compiler import compile_source
from oneflow.testing.triton_interpreter import interpret_program

#: A filter gradient of 3 x 3, channels last.
THREE = (
    'num_spatial_dims = 2 : si32, padding_before = [1 : si32, 1 : si32], data_format = "channels_last",'
    " kernel_size = [3 : si32, 3 : si32], strides = [1 : si32, 1 : si32], dilation_rate = [1 : si32, 1 : si32],"
    " groups = 1 : si32"
)


def call(op, operands, attributes, result):
    names = [f"%a{i}" for i in range(len(operands))]
    arguments = ", ".join(f"{n}: tensor<{k}>" for n, k in zip(names, operands, strict=True))
    kinds = ", ".join(f"tensor<{k}>" for k in operands)
    return f"""func.func @main({arguments}) -> tensor<{result}> {{
      %0 = "oneflow.{op}"({", ".join(names)}) {{{attributes}}} : ({kinds}) -> tensor<{result}>
      return %0 : tensor<{result}>
    }}"""


def described(config):
    return f"{config.rows}x{config.columns}x{config.warps}{'s' * config.stays}"


def normal(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("shape", "axes", "result"),
    [((4096, 64), (0,), "64xf32"), ((8, 65536), (1,), "8xf32"), ((512, 1024), (0, 1), "f32")],
)
@pytest.mark.parametrize(("op", "reference"), [("reduce_sum", np.sum), ("reduce_max", np.max)])
def test_a_reduction_in_two(shape, axes, result, op, reference):
    attributes = f"axis = [{', '.join(f'{a} : si32' for a in axes)}], keepdims = false"
    program = lower(call(op, ["x".join([*map(str, shape), "f32"])], attributes, result))
    assert program.plan.count("run.launch") == 2
    x = normal(*shape)
    np.testing.assert_allclose(interpret_program(program, x)[0], reference(x.astype(np.float64), axes), 1e-5, 1e-3)


def test_a_maximum_in_two_keeps_nan():
    program = lower(call("reduce_max", ["4096x64xf32"], "axis = [0 : si32], keepdims = false", "64xf32"))
    x = normal(4096, 64)
    x[4095, 3] = np.nan
    (got,) = interpret_program(program, x)
    assert np.isnan(got[3]) and np.isfinite(np.delete(got, 3)).all()


@pytest.mark.parametrize("flip", [False, True])
def test_a_deep_product_in_parts(flip):
    a, b = normal(64, 8192).astype(ml_dtypes.bfloat16), normal(8192, 64).astype(ml_dtypes.bfloat16)
    kind = "64x8192xbf16" if flip else "8192x64xbf16"
    program = lower(call("matmul", ["64x8192xbf16", kind], f"transpose_b = {str(flip).lower()}", "64x64xbf16"))
    assert program.plan.count("run.launch") == 2
    (got,) = interpret_program(program, a, np.ascontiguousarray(b.T) if flip else b)
    want = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(got.view(ml_dtypes.bfloat16).astype(np.float32), want, 1e-2, 0.5)


@pytest.mark.parametrize(("parts", "described"), [(4, True), (5, False)])
def test_parts_of_a_depth_are_places_in_it(parts, described, monkeypatch):
    """Whole blocks are parts of a descriptor's dimension; where one would be in two, they are read by pointers."""
    monkeypatch.setattr(split_reductions, "split_depth", lambda *product, grouped=True: (0, parts))
    monkeypatch.setattr(matmul, "choose", lambda product: [DESCRIBED[-1], NARROW[3]])
    depth = 1024 if described else 1000
    a, b = normal(64, depth).astype(np.float16), normal(depth, 128).astype(np.float16)
    program = lower(call("matmul", [f"64x{depth}xf16", f"{depth}x128xf16"], "", "64x128xf16"))
    assert (f"(p0, [64, {depth}], [{depth}, 1]" in program.text) == described
    assert (f"b1 * {depth // parts} + k_at" in program.text) == described == ("tor(p0" in program.text)
    (got,) = interpret_program(program, a, b)
    np.testing.assert_allclose(got.astype(np.float32), a.astype(np.float32) @ b.astype(np.float32), 1e-2, 0.1)


@pytest.mark.parametrize("config", DESCRIBED, ids=described)
@pytest.mark.parametrize("flip", [False, True])
def test_products_by_descriptors(config, flip, monkeypatch):
    """Blocks beyond the edges, every transpose; programs have a tile each or stay for several."""
    monkeypatch.setattr(matmul, "choose", lambda product: [config])
    rows, columns = (1600, 3000) if config.slices == 2 else (136, 264)
    a, b = normal(rows, 72).astype(np.float16), normal(72, columns).astype(np.float16)
    kinds = [f"72x{rows}xf16", f"{columns}x72xf16"] if flip else [f"{rows}x72xf16", f"72x{columns}xf16"]
    flags = f"transpose_a = {str(flip).lower()}, transpose_b = {str(flip).lower()}"
    program = lower(call("matmul", kinds, flags, f"{rows}x{columns}xf16"))
    assert "make_tensor_descriptor" in program.text and ("for tile in" in program.text) == config.stays
    (got,) = interpret_program(program, *([np.ascontiguousarray(x.T) for x in (a, b)] if flip else [a, b]))
    np.testing.assert_allclose(got.astype(np.float32), a.astype(np.float32) @ b.astype(np.float32), 1e-2, 2e-2)


RELU_GRADIENT = """func.func @main(%x: tensor<{m}x{n}xf16>, %a: tensor<{m}x{k}xf16>, %b: tensor<{k}x{n}xf16>)
    -> tensor<{m}x{n}xf16> {{
  %0 = "oneflow.matmul"(%a, %b) : (tensor<{m}x{k}xf16>, tensor<{k}x{n}xf16>) -> tensor<{m}x{n}xf16>
  %1 = "oneflow.relu_grad"(%x, %0) : (tensor<{m}x{n}xf16>, tensor<{m}x{n}xf16>) -> tensor<{m}x{n}xf16>
  return %1 : tensor<{m}x{n}xf16>
}}"""


@pytest.mark.parametrize("config", DESCRIBED, ids=described)
def test_no_stage_is_lost_to_what_a_tile_is_finished_with(config, monkeypatch):
    """A block that is read beside the result goes by descriptors where both have room beside all stages."""
    monkeypatch.setattr(matmul, "choose", lambda product: [config])
    (source,) = lower(RELU_GRADIENT.format(m=8192, n=3072, k=768)).sources.values()
    assert source.stages == config.stages
    assert ("tor(p2" in source.text) == config.is_direct(Product(1, 8192, 3072, 768, 2, True, finished=4))
    assert compile_source(source).shared <= gpu_target().block_shared_bytes


def test_columns_that_end_within_a_tile(monkeypatch):
    """Its second half is beyond them: what it is finished with is not there, and it writes to no other row."""
    monkeypatch.setattr(matmul, "choose", lambda product: [DESCRIBED[0]])
    rows, columns = 264, 384
    a, b = normal(rows, 72).astype(np.float16), normal(72, columns).astype(np.float16)
    x = normal(rows, columns).astype(np.float16)
    program = lower(RELU_GRADIENT.format(m=rows, n=columns, k=72))
    assert "tl.store(" in program.text
    (got,) = interpret_program(program, x, a, b)
    want = np.where(x > 0, a.astype(np.float32) @ b.astype(np.float32), 0)
    np.testing.assert_allclose(got.astype(np.float32), want, 1e-2, 2e-2)


def test_a_product_is_finished_by_pointers(monkeypatch):
    """What has no room beside the stages of 128 x 256."""
    monkeypatch.setattr(matmul, "choose", lambda product: [DESCRIBED[0]])
    program = lower(RELU_GRADIENT.format(m=264, n=520, k=72))
    assert "tor(p1" in program.text and "tor(p2" not in program.text and "tor(p3" not in program.text
    x, a, b = (normal(*s).astype(np.float16) for s in ((264, 520), (264, 72), (72, 520)))
    (got,) = interpret_program(program, x, a, b)
    want = np.where(x > 0, a.astype(np.float32) @ b.astype(np.float32), 0)
    np.testing.assert_allclose(got.astype(np.float32), want, 1e-2, 2e-2)


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0), (0, 2, 1)], ids=str)
def test_a_transpose_in_tiles(order):
    shape = (70, 33, 130)
    result = "x".join([*(str(shape[i]) for i in order), "f32"])
    attributes = f"perm = [{', '.join(f'{i} : si32' for i in order)}]"
    program = lower(call("transpose", ["70x33x130xf32"], attributes, result))
    x = normal(*shape)
    np.testing.assert_array_equal(interpret_program(program, x)[0], x.transpose(order))
    assert ("[:, None]" in program.text) == (order[2] != 2)


@pytest.mark.parametrize(("rows", "columns", "depth"), [(3, 70, 100), (33, 5, 64), (70, 130, 40)])
def test_a_product_of_f32_along_its_depth(rows, columns, depth):
    """Where threads of `tl.dot` would wait for one another; rows, columns and depth end within blocks."""
    kinds = [f"3x{rows}x{depth}xf32", f"3x{columns}x{depth}xf32"]
    program = lower(call("batch_matmul", kinds, "transpose_b = true", f"3x{rows}x{columns}xf32"))
    assert "tl.dot" not in program.text and "num_stages" in program.text
    a, b = normal(3, rows, depth), normal(3, columns, depth) + 1
    np.testing.assert_allclose(interpret_program(program, a, b)[0], a @ b.swapaxes(1, 2), 1e-4, 1e-4)


@pytest.mark.parametrize("precision", ["tf32", "tf32x3"])
def test_a_product_on_tensor_cores_along_its_depth(precision):
    text = call("matmul", ["64x784xf32", "512x784xf32"], "transpose_b = true", "64x512xf32")
    text = f'module attributes {{oneflow.precision = "{precision}"}} {{\n{text}\n}}'
    assert f'input_precision="{precision}"' in lower(text).text


#: What was fastest on an H100, or nearly so: rows, columns, depth, bytes to finish an element; the block's rows,
#: columns and warps, whether it is described and programs stay. Odd sizes are read element by element.
FASTEST = [
    ((8192, 8192, 8192, 2), (128, 256, 8, True, True)), ((8192, 50304, 768, 2), (128, 256, 8, True, True)),
    ((8192, 3072, 768, 2), (128, 256, 8, True, True)), ((8192, 3072, 768, 4), (128, 256, 8, True, True)),
    ((8192, 768, 3072, 2), (128, 128, 8, True, True)), ((8192, 768, 3072, 4), (128, 128, 8, True, True)),
    ((768, 768, 8192, 2), (64, 128, 4, True, False)),
    ((1024, 768, 3072, 2), (64, 128, 4, True, False)), ((128, 4096, 4096, 2), (64, 64, 4, True, False)),
    ((1024, 1024, 1024, 2), (64, 128, 4, True, False)), ((64, 4096, 4096, 2), (64, 32, 4, True, False)),
    ((16, 4096, 4096, 2), (16, 32, 4, False, False)), ((1000, 777, 1001, 2), (64, 64, 4, False, False)),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "block"), FASTEST, ids=str)
def test_the_choice_of_a_product_was_the_fastest(shape, block):
    *sizes, finished = shape
    aligned = all(n % 8 == 0 for n in sizes)
    best = choose(Product(1, *sizes, 2, aligned, finished=finished))[0]
    assert (best.rows, best.columns, best.warps, best.described, best.stays) == block


#: The same in a graph: batch, rows, columns, depth, bytes and operations to finish an element; the block, warps,
#: stages and whether programs stay. Small tiles side by side, or the next of programs that stay, hide the end of one.
FASTEST_IN_A_GRAPH = [
    ((3, 1024, 768, 768, 2, 5), (64, 128, 64, 4, 3, False)),
    ((1, 1024, 3072, 768, 2, 16), (64, 128, 64, 4, 3, False)),
    ((1, 2048, 768, 768, 4, 9), (64, 128, 64, 4, 4, False)),
    ((1, 512, 3072, 768, 2, 16), (64, 128, 64, 4, 4, False)),
    ((1, 8192, 3072, 768, 4, 17), (128, 256, 64, 8, 4, True)),
    ((1, 8192, 3072, 768, 4, 28), (128, 256, 64, 8, 4, True)),
    ((1, 2048, 768, 3072, 4, 9), (128, 128, 64, 4, 6, False)),
    ((1, 1024, 768, 3072, 4, 9), (64, 128, 128, 4, 4, False)),
]


@pytest.mark.parametrize(("shape", "block"), FASTEST_IN_A_GRAPH, ids=str)
def test_the_choice_of_a_product_with_what_follows_was_the_fastest(shape, block):
    *sizes, finished, operations = shape
    c = choose(Product(*sizes, 2, True, finished=finished, operations=operations))[0]
    assert (c.rows, c.columns, c.depth, c.warps, c.stages, c.stays) == block and c.described


def test_the_operations_that_follow_a_product_are_counted():
    """A bias takes four conversions and an addition; gelu comes on top."""

    def finished(then=""):
        kinds = "tensor<64x64xbf16>"
        text = f"""func.func @main(%a: {kinds}, %b: {kinds}, %c: tensor<64xbf16>) -> {kinds} {{
          %0 = "oneflow.matmul"(%a, %b) : ({kinds}, {kinds}) -> {kinds}
          %1 = "oneflow.bias_add"(%0, %c) {{axis = 1 : i32}} : ({kinds}, tensor<64xbf16>) -> {kinds}
          {then} return %{2 if then else 1} : {kinds}
        }}"""
        seen = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(matmul, "choose", lambda product: seen.append(product) or choose(product))
            lower(text)
        return {product.operations for product in seen}

    gelu = '%2 = "oneflow.fast_gelu"(%1) : (tensor<64x64xbf16>) -> tensor<64x64xbf16>'
    (bias,), (both,) = finished(), finished(gelu)
    assert bias == 5 and both == 16


@pytest.mark.parametrize(("shape", "along"), [((64, 512, 784), True), ((1024, 1024, 1024), True)], ids=str)
def test_products_of_f32_along_their_depth_keep_sums_apart(shape, along):
    assert choose(Product(1, *shape, 4, False, along=along))[0].apart
    assert not choose(Product(1, *shape, 4, False))[0].apart


def test_deep_products_and_reductions_are_split_where_that_fills_the_device():
    assert split_depth(Product(1, 64, 64, 65536, 2, True), (65536,))[1] >= 32
    assert split_depth(Product(1, 256, 256, 16384, 2, True), (16384,)) == (0, 8)
    assert split_depth(Product(1, 8192, 8192, 8192, 2, True), (8192,)) == (0, 1)
    # 18 tiles: 7 parts fill 132 processors better than 4 or 8.
    assert split_depth(Product(1, 256, 2304, 25088, 2, False, shared=(1.0, 7.0)), (128, 14)) == (1, 7)
    assert split_parts(65536, 65536, 1024, True) > 32 and split_parts(64, 64, 8192, True) == 1
    # A second launch takes as long as some more rows for each program.
    assert split_parts(528, 528, 768, True) == 1 and split_parts(2048, 2048, 768, True) > 1
    # Where windows overlap, an operand is read from memory once.
    apart, shared = (Product(1, 64, 576, 401408, 2, False, False, (1, n)) for n in (1, 9))
    assert microseconds(choose(shared)[0], shared) < microseconds(choose(apart)[0], apart)
    assert shares([2, None], 2) == shares([2, 2], None) == shares([2, 3], 8) == 1 and shares([4, 4], 4) == 4


@pytest.mark.parametrize(
    ("shape", "axes"), [((8, 20, 20, 64), (0, 1, 2)), ((3, 5, 96, 120, 2), (1, 3)), ((2, 90, 7, 130), (1, 2, 3))]
)
def test_loops_that_lie_behind_each_other_are_one(shape, axes):
    """They are cut in more parts than one of them has steps, and sums beside them take the same parts."""
    x, kind = normal(*shape), "x".join(map(str, shape))
    kept = "x".join(str(n) for i, n in enumerate(shape) if i not in axes)
    axis = f"[{', '.join(f'{a} : si32' for a in axes)}]"
    one = f"{{axis = {axis}, keepdims = false}} : (tensor<{kind}xf32>) -> tensor<{kept}xf32>"
    program = lower(f"""func.func @main(%x: tensor<{kind}xf32>) -> (tensor<{kept}xf32>, tensor<{kept}xf32>) {{
      %y = "oneflow.square"(%x) : (tensor<{kind}xf32>) -> tensor<{kind}xf32>
      %0 = "oneflow.reduce_sum"(%x) {one}
      %1 = "oneflow.reduce_sum"(%y) {one}
      return %0, %1 : tensor<{kept}xf32>, tensor<{kept}xf32>
    }}""")
    first, second = interpret_program(program, x)
    np.testing.assert_allclose(first, x.sum(axes, dtype=np.float64), 1e-4, 1e-3)
    np.testing.assert_allclose(second, (x.astype(np.float64) ** 2).sum(axes), 1e-4, 1e-3)


def test_a_filter_gradient_fills_the_processors():
    """Windows cannot be read by descriptors, so its parts are those of products that have none."""
    kinds = ["128x28x28x128xbf16", "128x28x28x128xbf16"]
    program = lower(call("conv_filter_grad", kinds, THREE, "128x3x3x128xbf16"))
    (source,) = [s for s in program.sources.values() if "tl.dot" in s.text]
    config = choose(Product(28, 128, 1152, 3584, 2, False, False, (1, 8), finished=4, widest=4))[0]
    assert source.grid == str(28 * -(-128 // config.rows) * -(-1152 // config.columns))


@pytest.mark.parametrize(("loop", "parts"), [(0, 4), (2, 3), (3, 2)])
def test_a_filter_gradient_in_parts(loop, parts, monkeypatch):
    """Parts of images, of rows or of columns, which windows read as well."""
    monkeypatch.setattr(split_reductions, "split_depth", lambda *product, grouped=True: (loop, parts))
    x, dy = (normal(32, 6, 6, 16).astype(ml_dtypes.bfloat16) for _ in range(2))
    program = lower(call("conv_filter_grad", ["32x6x6x16xbf16"] * 2, THREE, "16x3x3x16xbf16"))
    assert f"b1 * { {0: 4608, 2: 192, 3: 48}[loop] }" in program.text
    (got,) = interpret_program(program, dy, x)
    padded = np.pad(x.astype(np.float32), [(0, 0), (1, 1), (1, 1), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (6, 6), (1, 2))
    want = np.einsum("nhwo,nijchw->oijc", dy.astype(np.float32), windows)
    np.testing.assert_allclose(got.view(ml_dtypes.bfloat16).astype(np.float32), want, 1e-2, 0.5)
