"""Split reductions, products by TMA descriptors, tiled transposes: values against NumPy, in the interpreter."""

import math
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lowered import lower

from oneflow.dialect import ops  # noqa: F401
from oneflow.dialect._mlir import ir
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.dialect.record import REGISTRY
from oneflow.lowering.kernels.reduction_split import ALIGNED_STEPS, even_parts
from oneflow.lowering.kernels.scan_split import steps_of_parts
from oneflow.lowering.pipelines import pipeline_between
from oneflow.lowering.targets.hopper import HOPPER_TILES
from oneflow.lowering.targets.selection import gpu_target
from oneflow.lowering.triton.codegen.kernel import Kernel
from oneflow.lowering.triton.codegen.matmul import Contraction
from oneflow.lowering.triton.cost.matmul_configurations import (
    Product,
    choose_split_k,
    configs_of,
    microseconds,
    most_reduction_parts,
    operand_reuse,
    ranked_configs,
)
from oneflow.passes.pipeline import Pipeline
from oneflow.runtime.cuda.compiler import compile_source
from oneflow.testing.triton_interpreter import interpret_program

TMA_CONFIGS = configs_of(HOPPER_TILES.tma)
POINTER_CONFIGS = configs_of(HOPPER_TILES.pointer)

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


def config_name(config):
    return f"{config.rows}x{config.columns}x{config.warps}{'s' * config.persistent}"


def normal(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("shape", "axes", "result"),
    [((4096, 64), (0,), "64xf32"), ((8, 65536), (1,), "8xf32"), ((512, 1024), (0, 1), "f32")],
)
@pytest.mark.parametrize(("op", "reference"), [("reduce_sum", np.sum), ("reduce_max", np.max)])
def test_split_reductions(shape, axes, result, op, reference):
    attributes = f"axis = [{', '.join(f'{a} : si32' for a in axes)}], keepdims = false"
    program = lower(call(op, ["x".join([*map(str, shape), "f32"])], attributes, result))
    assert program.plan.count("run.launch") == 2
    x = normal(*shape)
    np.testing.assert_allclose(interpret_program(program, x)[0], reference(x.astype(np.float64), axes), 1e-5, 1e-3)


@pytest.mark.parametrize("shape", [(3, 50021), (1, 131101)], ids=str)
@pytest.mark.parametrize(("op", "reference"), [("reduce_sum", np.sum), ("reduce_min", np.min)])
def test_parts_with_a_remainder(shape, op, reference):
    """A prime number of steps: windows of the operand, and the remaining steps."""
    kind = f"{shape[0]}x{shape[1]}xf32"
    program = lower(call(op, [kind], "axis = [1 : si32], keepdims = false", f"{shape[0]}xf32"))
    assert program.plan.count("run.launch") == 3
    x = normal(*shape) + np.linspace(1, 0, shape[1], dtype=np.float32)
    np.testing.assert_allclose(interpret_program(program, x)[0], reference(x.astype(np.float64), 1), 1e-5)


@pytest.mark.parametrize("size", [65536, 50021])
def test_softmax_of_few_long_rows(size):
    """The exponentials are computed for the sum and again for the division, and are not stored."""
    program = lower(call("softmax", [f"3x{size}xf32"], "", f"3x{size}xf32"))
    (written,) = [line for line in program.plan.splitlines() if "run.result" in line]
    assert f"{3 * size * 4}" in written and f"run.at(0, {3 * size * 4}" not in program.plan
    x = normal(3, size)
    want = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    want /= want.sum(1, keepdims=True)
    np.testing.assert_allclose(interpret_program(program, x)[0], want, 1e-5)


@pytest.mark.parametrize(
    ("shape", "dim", "launches"),
    [((3, 65536), 1, 3), ((131072,), 0, 4), ((16384, 8), 0, 3), ((3, 50021), 1, 5), ((32771, 4), 0, 4)],
    ids=str,
)
def test_scans_of_few_long_rows(shape, dim, launches):
    """Totals of parts, running sums of totals, scans of parts; nothing else of the result's size is stored.

    If the parts do not cover the rows, the remainder is scanned separately and inserted.
    """
    kind = "x".join([*map(str, shape), "f32"])
    program = lower(call("cumsum", [kind], f"dim = {dim} : si64", kind))
    assert program.plan.count("run.launch") == launches
    assert all(f", {4 * math.prod(shape)})" not in line for line in program.plan.splitlines() if "run.at" in line)
    x = normal(*shape) + np.float32(0.5)
    want = np.cumsum(x.astype(np.float64), dim)
    np.testing.assert_allclose(interpret_program(program, x)[0], want, 2e-5, 2e-3)


def test_a_scan_that_reads_its_position_is_not_split():
    """A lower triangle is fused into the scan: the position in a part is not the position in the row."""
    program = lower(
        """func.func @main(%x: tensor<2x65536xf32>) -> tensor<2x65536xf32> {
      %0 = "oneflow.tril"(%x) {diagonal = 40000 : si64, floating_fill_value = 0.0 : f64,
        integer_fill_value = 0 : si64, is_floating_fill_value = true} : (tensor<2x65536xf32>) -> tensor<2x65536xf32>
      %1 = "oneflow.cumsum"(%0) {dim = 1 : si64} : (tensor<2x65536xf32>) -> tensor<2x65536xf32>
      return %1 : tensor<2x65536xf32>
    }"""
    )
    (got,) = interpret_program(program, np.ones((2, 65536), np.float32))
    assert got[:, -1].tolist() == [40001, 40002]


def test_few_rows_that_one_kernel_reads():
    """The rows fill half of the SMs: a softmax stays one kernel, a sum is split."""
    rows = gpu_target().sms // 2 + 1
    kind = f"{rows}x65536xf32"
    assert lower(call("softmax", [kind], "", kind)).plan.count("run.launch") == 1
    total = call("reduce_sum", [kind], "axis = [1 : si32], keepdims = false", f"{rows}xf32")
    assert lower(total).plan.count("run.launch") == 2


def test_statistics_of_a_long_row_have_their_own_kernel():
    """One program for the whole row would leave the other SMs idle."""
    program = lower(
        """func.func @main(%x: tensor<1x65536xf32>) -> tensor<1x65536xf32> {
      %0:3 = "oneflow.layer_norm"(%x) {begin_norm_axis = 1 : si64, begin_params_axis = 1 : si64, center = false,
        scale = false, epsilon = 1.0e-5 : f64}
        : (tensor<1x65536xf32>) -> (tensor<1x65536xf32>, tensor<1xf32>, tensor<1xf32>)
      return %0#0 : tensor<1x65536xf32>
    }"""
    )
    *_, last = program.sources.values()
    assert last.grid.static > 1
    x = normal(1, 65536)
    want = (x - x.mean()) / np.sqrt(x.var() + 1e-5)
    np.testing.assert_allclose(interpret_program(program, x)[0], want, 1e-4, 1e-4)


@given(size=st.integers(1, 1 << 21), most=st.integers(0, 1100))
def test_split_parts_have_equal_sizes(size, most):
    """At most `most` parts; if the parts do not cover the loop, the remainder is shorter than two parts."""
    parts = even_parts(size, most)
    assert 1 <= parts <= max(most, 1)
    if parts > 1 and size % parts:
        steps = size // parts // ALIGNED_STEPS * ALIGNED_STEPS
        assert steps and size - parts * steps < 2 * steps
    elif most > 1 and size >= 4 * ALIGNED_STEPS * most:
        assert 2 * parts >= most


@given(size=st.integers(1, 1 << 21), most=st.integers(1, 1100))
def test_steps_of_parts_of_a_scan(size, most):
    """At most twice `most` parts; parts that do not cover the scan are blocks, and the remainder is less than one."""
    steps = steps_of_parts(size, most)
    assert 1 <= steps <= size and size // steps <= 2 * most
    if size % steps:
        assert steps & (steps - 1) == 0
    assert steps < size or min(size, most) == 1


def test_a_split_maximum_propagates_nan():
    program = lower(call("reduce_max", ["4096x64xf32"], "axis = [0 : si32], keepdims = false", "64xf32"))
    x = normal(4096, 64)
    x[4095, 3] = np.nan
    (got,) = interpret_program(program, x)
    assert np.isnan(got[3]) and np.isfinite(np.delete(got, 3)).all()


@pytest.mark.parametrize("flip", [False, True])
def test_split_k(flip):
    a, b = normal(64, 8192).astype(ml_dtypes.bfloat16), normal(8192, 64).astype(ml_dtypes.bfloat16)
    kind = "64x8192xbf16" if flip else "8192x64xbf16"
    program = lower(call("matmul", ["64x8192xbf16", kind], f"transpose_b = {str(flip).lower()}", "64x64xbf16"))
    assert program.plan.count("run.launch") == 2
    (got,) = interpret_program(program, a, np.ascontiguousarray(b.T) if flip else b)
    want = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(got.view(ml_dtypes.bfloat16).astype(np.float32), want, 1e-2, 0.5)


@pytest.mark.parametrize(
    ("depth", "parts", "described"),
    [(1024, 4, "(p0, [64, 1024], [1024, 1]"), (1000, 5, "(p0, [5, 64, 200], [200, 1000, 1]"), (1000, 8, "")],
)
def test_split_k_by_descriptors(depth, parts, described, change_gpu):
    """Parts of whole blocks are positions of a descriptor, others have a dimension; unaligned parts have neither."""
    change_gpu(overrides={"split_k": (0, parts), "tiles": (TMA_CONFIGS[-1], POINTER_CONFIGS[3])})
    a, b = normal(64, depth).astype(np.float16), normal(depth, 128).astype(np.float16)
    program = lower(call("matmul", [f"64x{depth}xf16", f"{depth}x128xf16"], "", "64x128xf16"))
    assert described in program.text and ("tor(p0" in program.text) == bool(described)
    assert (f"b1 * {depth // parts} + k_at" in program.text) == (depth == 1024)
    (got,) = interpret_program(program, a, b)
    np.testing.assert_allclose(got.astype(np.float32), a.astype(np.float32) @ b.astype(np.float32), 1e-2, 0.1)


@pytest.mark.parametrize("config", TMA_CONFIGS, ids=config_name)
@pytest.mark.parametrize("flip", [False, True])
def test_products_by_descriptors(config, flip, change_gpu):
    """Blocks beyond the edges, every transpose, persistent kernels and others."""
    change_gpu(overrides={"tiles": (config,)})
    rows, columns = (1600, 3000) if config.epilogue_slices == 2 else (136, 264)
    a, b = normal(rows, 72).astype(np.float16), normal(72, columns).astype(np.float16)
    kinds = [f"72x{rows}xf16", f"{columns}x72xf16"] if flip else [f"{rows}x72xf16", f"72x{columns}xf16"]
    flags = f"transpose_a = {str(flip).lower()}, transpose_b = {str(flip).lower()}"
    program = lower(call("matmul", kinds, flags, f"{rows}x{columns}xf16"))
    assert "make_tensor_descriptor" in program.text and ("for tile in" in program.text) == config.persistent
    (got,) = interpret_program(program, *([np.ascontiguousarray(x.T) for x in (a, b)] if flip else [a, b]))
    np.testing.assert_allclose(got.astype(np.float32), a.astype(np.float32) @ b.astype(np.float32), 1e-2, 2e-2)


RELU_GRADIENT = """func.func @main(%x: tensor<{m}x{n}xf16>, %a: tensor<{m}x{k}xf16>, %b: tensor<{k}x{n}xf16>)
    -> tensor<{m}x{n}xf16> {{
  %0 = "oneflow.matmul"(%a, %b) : (tensor<{m}x{k}xf16>, tensor<{k}x{n}xf16>) -> tensor<{m}x{n}xf16>
  %1 = "oneflow.relu_grad"(%x, %0) : (tensor<{m}x{n}xf16>, tensor<{m}x{n}xf16>) -> tensor<{m}x{n}xf16>
  return %1 : tensor<{m}x{n}xf16>
}}"""


@pytest.mark.parametrize("config", TMA_CONFIGS, ids=config_name)
def test_the_epilogue_takes_no_stage(config, change_gpu):
    """The epilogue loads by TMA where shared memory holds its blocks and all stages."""
    change_gpu(overrides={"tiles": (config,)})
    (source,) = lower(RELU_GRADIENT.format(m=8192, n=3072, k=768)).sources.values()
    assert source.stages == config.stages
    assert ("tor(p2" in source.text) == config.has_tma_epilogue(
        Product(1, 8192, 3072, 768, 2, True, epilogue_bytes=4)
    )
    assert compile_source(source).shared <= gpu_target().block_shared_bytes


def test_columns_that_end_in_the_first_epilogue_slice(change_gpu):
    """The second slice is beyond the columns: nothing is loaded, and nothing is stored to other rows."""
    change_gpu(overrides={"tiles": (TMA_CONFIGS[0],)})
    rows, columns = 264, 384
    a, b = normal(rows, 72).astype(np.float16), normal(72, columns).astype(np.float16)
    x = normal(rows, columns).astype(np.float16)
    program = lower(RELU_GRADIENT.format(m=rows, n=columns, k=72))
    assert "tl.store(" in program.text
    (got,) = interpret_program(program, x, a, b)
    want = np.where(x > 0, a.astype(np.float32) @ b.astype(np.float32), 0)
    np.testing.assert_allclose(got.astype(np.float32), want, 1e-2, 2e-2)


def test_an_epilogue_by_pointers(change_gpu):
    """Where shared memory does not hold the epilogue's blocks and the stages of 128 x 256."""
    change_gpu(overrides={"tiles": (TMA_CONFIGS[0],)})
    program = lower(RELU_GRADIENT.format(m=264, n=520, k=72))
    assert "tor(p1" in program.text and "tor(p2" not in program.text and "tor(p3" not in program.text
    x, a, b = (normal(*s).astype(np.float16) for s in ((264, 520), (264, 72), (72, 520)))
    (got,) = interpret_program(program, x, a, b)
    want = np.where(x > 0, a.astype(np.float32) @ b.astype(np.float32), 0)
    np.testing.assert_allclose(got.astype(np.float32), want, 1e-2, 2e-2)


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0), (0, 2, 1)], ids=str)
def test_tiled_transposes(order):
    shape = (70, 33, 130)
    result = "x".join([*(str(shape[i]) for i in order), "f32"])
    attributes = f"perm = [{', '.join(f'{i} : si32' for i in order)}]"
    program = lower(call("transpose", ["70x33x130xf32"], attributes, result))
    x = normal(*shape)
    np.testing.assert_array_equal(interpret_program(program, x)[0], x.transpose(order))
    assert ("[:, None]" in program.text) == (order[2] != 2)


@pytest.mark.parametrize(("rows", "columns", "depth"), [(3, 70, 100), (33, 5, 64), (70, 130, 40)])
def test_f32_products_of_contiguous_depth(rows, columns, depth):
    """Where `tl.dot` would have bank conflicts; rows, columns and depth end within blocks."""
    kinds = [f"3x{rows}x{depth}xf32", f"3x{columns}x{depth}xf32"]
    program = lower(call("batch_matmul", kinds, "transpose_b = true", f"3x{rows}x{columns}xf32"))
    assert "tl.dot" not in program.text and "num_stages" in program.text
    a, b = normal(3, rows, depth), normal(3, columns, depth) + 1
    np.testing.assert_allclose(interpret_program(program, a, b)[0], a @ b.swapaxes(1, 2), 1e-4, 1e-4)


@pytest.mark.parametrize("precision", ["tf32", "tf32x3"])
def test_tf32_products_of_contiguous_depth(precision):
    text = call("matmul", ["64x784xf32", "512x784xf32"], "transpose_b = true", "64x512xf32")
    text = f'module attributes {{oneflow.precision = "{precision}"}} {{\n{text}\n}}'
    assert f'input_precision="{precision}"' in lower(text).text


#: The fastest configurations on an H100, or nearly: rows, columns, depth, epilogue bytes; the rows, columns and
#: warps, whether by TMA, and whether persistent. Odd sizes are read element by element.
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
def test_the_model_chooses_the_fastest_configuration(shape, block):
    rows, columns, depth, finished = shape
    aligned = all(n % 8 == 0 for n in (rows, columns, depth))
    best = ranked_configs(Product(1, rows, columns, depth, 2, aligned, epilogue_bytes=finished))[0]
    assert (best.rows, best.columns, best.warps, best.tma, best.persistent) == block


#: The same in a CUDA graph: batch, rows, columns, depth, epilogue bytes and operations; the block, warps, stages, and
#: whether persistent. The epilogue of one tile overlaps other tiles of the SM, or the next tile.
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
def test_the_model_chooses_the_fastest_configuration_with_an_epilogue(shape, block):
    batch, rows, columns, depth, finished, operations = shape
    c = ranked_configs(
        Product(batch, rows, columns, depth, 2, True, epilogue_bytes=finished, epilogue_operations=operations)
    )[0]
    assert (c.rows, c.columns, c.depth, c.warps, c.stages, c.persistent) == block and c.tma


def test_epilogue_operations_are_counted():
    """A bias is four conversions and an addition; gelu adds further operations."""

    def epilogue_operations(then=""):
        kinds = "tensor<64x64xbf16>"
        text = f"""func.func @main(%a: {kinds}, %b: {kinds}, %c: tensor<64xbf16>) -> {kinds} {{
          %0 = "oneflow.matmul"(%a, %b) : ({kinds}, {kinds}) -> {kinds}
          %1 = "oneflow.bias_add"(%0, %c) {{axis = 1 : i32}} : ({kinds}, tensor<64xbf16>) -> {kinds}
          {then} return %{2 if then else 1} : {kinds}
        }}"""
        context = create_context()
        with context, ir.Location.unknown():
            module = read_module(text, context)
            Pipeline.parse(pipeline_between(None, "gpu-kernels"), context).run(module, REGISTRY)
            (function,) = (o for o in module.body.operations if "oneflow.kernel" in o.attributes)
            kernel = Kernel.read(function.operation)
            return Contraction(kernel, kernel.structure()).problem.epilogue_operations

    gelu = '%2 = "oneflow.fast_gelu"(%1) : (tensor<64x64xbf16>) -> tensor<64x64xbf16>'
    assert (epilogue_operations(), epilogue_operations(gelu)) == (5, 16)


@pytest.mark.parametrize(("shape", "along"), [((64, 512, 784), True), ((1024, 1024, 1024), True)], ids=str)
def test_per_lane_accumulators_for_contiguous_depth(shape, along):
    product = Product(1, shape[0], shape[1], shape[2], 4, False)
    assert ranked_configs(replace(product, contiguous_depth=along))[0].per_lane_accumulators
    assert not ranked_configs(product)[0].per_lane_accumulators


def test_deep_products_and_reductions_are_split_where_that_fills_the_device():
    assert choose_split_k(Product(1, 64, 64, 65536, 2, True), (65536,))[1] >= 32
    assert choose_split_k(Product(1, 256, 256, 16384, 2, True), (16384,)) == (0, 8)
    assert choose_split_k(Product(1, 8192, 8192, 8192, 2, True), (8192,)) == (0, 1)
    # 18 tiles: 7 parts fill 132 SMs better than 4 or 8.
    assert choose_split_k(Product(1, 256, 2304, 25088, 2, False, operand_reuse=(1.0, 7.0)), (128, 14)) == (1, 7)
    assert most_reduction_parts(65536, 1024, True) > 32 and most_reduction_parts(64, 8192, True) == 1
    # A second launch takes as long as some more rows for each program.
    assert most_reduction_parts(528, 768, True) == 1 and most_reduction_parts(2048, 768, True) > 1
    # If windows overlap, an operand is read from memory once.
    separate, shared = (Product(1, 64, 576, 401408, 2, False, False, (1, n)) for n in (1, 9))
    assert microseconds(ranked_configs(shared)[0], shared) < microseconds(ranked_configs(separate)[0], separate)
    assert (
        operand_reuse([2, None], 2) == operand_reuse([2, 2], None) == operand_reuse([2, 3], 8) == 1
        and operand_reuse([4, 4], 4) == 4
    )


@pytest.mark.parametrize(
    ("shape", "axes"), [((8, 20, 20, 64), (0, 1, 2)), ((3, 5, 96, 120, 2), (1, 3)), ((2, 90, 7, 130), (1, 2, 3))]
)
def test_contiguous_loops_are_collapsed(shape, axes):
    """The number of parts exceeds the steps of one loop; other sums of the operand have the same parts."""
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


def test_a_filter_gradient_fills_the_sms():
    """TMA cannot read windows, so that the split is as for products by pointers."""
    kinds = ["128x28x28x128xbf16", "128x28x28x128xbf16"]
    program = lower(call("conv_filter_grad", kinds, THREE, "128x3x3x128xbf16"))
    (source,) = [s for s in program.sources.values() if "tl.dot" in s.text]
    config = ranked_configs(
        Product(28, 128, 1152, 3584, 2, False, False, (1, 8), epilogue_bytes=4, widest_epilogue_bytes=4)
    )[0]
    assert source.grid.static == 28 * -(-128 // config.rows) * -(-1152 // config.columns)


@pytest.mark.parametrize(("loop", "parts"), [(0, 4), (2, 3), (3, 2)])
def test_split_k_of_a_filter_gradient(loop, parts, change_gpu):
    """The split is over images, over rows or over columns, which windows index."""
    change_gpu(overrides={"split_k": (loop, parts)})
    x, dy = (normal(32, 6, 6, 16).astype(ml_dtypes.bfloat16) for _ in range(2))
    program = lower(call("conv_filter_grad", ["32x6x6x16xbf16"] * 2, THREE, "16x3x3x16xbf16"))
    assert f"b1 * { {0: 4608, 2: 192, 3: 48}[loop] }" in program.text
    (got,) = interpret_program(program, dy, x)
    padded = np.pad(x.astype(np.float32), [(0, 0), (1, 1), (1, 1), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (6, 6), (1, 2))
    want = np.einsum("nhwo,nijchw->oijc", dy.astype(np.float32), windows)
    np.testing.assert_allclose(got.view(ml_dtypes.bfloat16).astype(np.float32), want, 1e-2, 0.5)
