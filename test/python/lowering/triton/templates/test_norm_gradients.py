"""All gradients of a layer or RMS normalization in one kernel, against NumPy in f64."""

import ml_dtypes
import numpy as np
import pytest
from lowered import lower

import oneflow as flow
from oneflow.dialect._mlir import ir
from oneflow.dialect.record import REGISTRY
from oneflow.lowering.pipelines import pipeline_between
from oneflow.lowering.triton.launch.program import read_program
from oneflow.passes.pipeline import Pipeline
from oneflow.runtime.cuda.compiler import compile_source
from oneflow.testing.triton_interpreter import interpret_program

EPSILON = 1e-5
TYPES = {"f32": (flow.float32, np.float32, 1e-4), "bf16": (flow.bfloat16, ml_dtypes.bfloat16, 3e-2)}


def program_of(shape, dtype, axes=1, affine=True, result=False):
    """The gradients, and with `result` the normalized rows."""

    def normalized(x, gamma=None, beta=None):
        return flow.nn.functional.layer_norm(x, shape[-axes:], gamma, beta, eps=EPSILON)

    def gradients(x, gamma, beta, dy):
        y, pull = flow.vjp(normalized, *((x, gamma, beta) if affine else (x,)))
        return (*pull(dy), y) if result else pull(dy)

    kind = TYPES[dtype][0]
    specs = [flow.TensorSpec(s, kind) for s in (shape, shape[-axes:], shape[-axes:], shape)]
    module = flow.trace(gradients, *specs)
    with module.context, ir.Location.unknown():
        Pipeline.parse(pipeline_between(None, "triton"), module.context).run(module, REGISTRY)
        return read_program(module)


def expected(x, gamma, dy, axes):
    """The gradients of x, gamma and beta."""
    x, gamma, dy = (a.astype(np.float64) for a in (x, gamma, dy))
    row, lead = tuple(range(x.ndim - axes, x.ndim)), tuple(range(x.ndim - axes))
    inverse = 1 / np.sqrt(x.var(row, keepdims=True) + EPSILON)
    normal, slope = (x - x.mean(row, keepdims=True)) * inverse, dy * gamma
    dx = (slope - slope.mean(row, keepdims=True) - normal * (slope * normal).mean(row, keepdims=True)) * inverse
    return dx, (dy * normal).sum(lead), dy.sum(lead)


@pytest.mark.parametrize("result", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("shape", "axes"), [((300, 40), 1), ((3, 128, 128), 1), ((257, 6, 10), 2), ((256, 5000), 1)], ids=str
)
def test_all_gradients(shape, axes, dtype, result):
    program = program_of(shape, dtype, axes, result=result)
    (source,) = [s for n, s in program.sources.items() if "layer_norm_gradients" in n]
    assert ("tl.sqrt(" in source.text) != result
    _, kind, tolerance = TYPES[dtype]
    rng = np.random.default_rng(7)
    x, gamma, beta, dy = (rng.standard_normal(s).astype(kind) for s in (shape, shape[-axes:], shape[-axes:], shape))
    got = interpret_program(program, x, gamma, beta, dy)
    assert len(got) == 3 + result
    for one, want in zip(got[:3], expected(x, gamma, dy, axes), strict=True):
        found = np.asarray(one).view(kind).astype(np.float64)
        np.testing.assert_allclose(found, want, rtol=tolerance, atol=tolerance * np.abs(want).max())


def residual(shape, dtype):
    """The gradient of the rows added to another tensor, its sums over rows, and the gradients of the parameters."""

    def gradients(x, gamma, beta, dy, other):
        normalized = lambda x, w, b: flow.nn.functional.layer_norm(x, shape[-1:], w, b, EPSILON)  # noqa: E731
        y, pull = flow.vjp(normalized, x, gamma, beta)
        dx, dgamma, dbeta = pull(dy)
        total = dx + other
        return total, dgamma, dbeta, total.sum((0, 1)), y

    specs = [flow.TensorSpec(s, TYPES[dtype][0]) for s in (shape, shape[-1:], shape[-1:], shape, shape)]
    module = flow.trace(gradients, *specs)
    with module.context, ir.Location.unknown():
        Pipeline.parse(pipeline_between(None, "triton"), module.context).run(module, REGISTRY)
        return read_program(module)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(3, 101, 40), (2, 256, 256)], ids=str)
def test_the_kernel_adds_a_tensor_and_sums(shape, dtype):
    program = residual(shape, dtype)
    assert program.plan.count("run.launch") <= 4  # The normalization, the gradients, and the sums over programs.
    _, kind, tolerance = TYPES[dtype]
    rng = np.random.default_rng(7)
    given = [rng.standard_normal(s).astype(kind) for s in (shape, shape[-1:], shape[-1:], shape, shape)]
    dx, dgamma, dbeta = expected(given[0], given[1], given[3], 1)
    total = dx + given[4].astype(np.float64)
    wanted = total, dgamma, dbeta, total.sum((0, 1))
    for one, want in zip(interpret_program(program, *given), wanted, strict=False):
        found = np.asarray(one).view(kind).astype(np.float64)
        np.testing.assert_allclose(found, want, rtol=tolerance, atol=tolerance * np.abs(want).max())


def test_an_addend_of_the_operator():
    program = lower("""
      func.func @main(%dy: tensor<512x64xf32>, %x: tensor<512x64xf32>, %m: tensor<512xf32>, %i: tensor<512xf32>,
                      %o: tensor<512x64xf32>) -> (tensor<512x64xf32>, tensor<64xf32>, tensor<64xf32>) {
        %d = "oneflow.layer_norm_grad"(%dy, %x, %m, %i, %o) {begin_norm_axis = 1 : si64,
          operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 1>} : (tensor<512x64xf32>, tensor<512x64xf32>,
          tensor<512xf32>, tensor<512xf32>, tensor<512x64xf32>) -> tensor<512x64xf32>
        %b, %c = "oneflow.layer_norm_param_grad"(%dy, %x, %m, %i) {begin_params_axis = 1 : si64}
          : (tensor<512x64xf32>, tensor<512x64xf32>, tensor<512xf32>, tensor<512xf32>)
          -> (tensor<64xf32>, tensor<64xf32>)
        return %d, %b, %c : tensor<512x64xf32>, tensor<64xf32>, tensor<64xf32>
      }""")
    assert any("layer_norm_gradients" in name for name in program.sources)
    rng = np.random.default_rng(7)
    dy, x, other = (rng.standard_normal((512, 64)).astype(np.float32) for _ in range(3))
    mean, inverse = x.mean(1), 1 / np.sqrt(x.var(1) + EPSILON)
    got = interpret_program(program, dy, x, mean, inverse, other)
    dx, dgamma, dbeta = expected(x, np.ones(64), dy, 1)
    for one, want in zip(got, (dx + other, dbeta, dgamma), strict=True):
        np.testing.assert_allclose(one, want, rtol=1e-4, atol=1e-3)


def test_statistics_are_recomputed_where_only_gradients_need_them():
    """One kernel reads x; the sums for the parameters are one launch."""
    assert program_of((1024, 1024), "bf16").plan.count("run.launch") == 2


@pytest.mark.parametrize(
    ("length", "dtype", "programs", "warps", "stages"),
    [(128, "bf16", 2112, 1, 1), (256, "bf16", 2112, 1, 3), (1024, "bf16", 528, 4, 3), (4096, "bf16", 264, 8, 3),
     (5000, "bf16", 132, 16, 3), (8192, "bf16", 132, 16, 4), (8192, "f32", 132, 16, 3)],
)  # fmt: skip
def test_programs_fill_the_sms(length, dtype, programs, warps, stages):
    (source,) = [s for n, s in program_of((16384, length), dtype).sources.items() if "layer_norm_gradients" in n]
    assert (source.grid.static, source.warps) == (programs, warps) and f"num_stages={stages})" in source.text


@pytest.mark.parametrize("shape", [(100, 64), (300, 20000)], ids=str)
def test_few_or_long_rows_are_not_joined(shape):
    assert not any("layer_norm_gradients" in name for name in program_of(shape, "f32").sources)


def test_norms_without_parameters():
    assert not any("layer_norm_gradients" in name for name in program_of((300, 64), "f32", affine=False).sources)


@pytest.mark.parametrize("length", [768, 8192])
def test_norm_gradients_compile_for_a_device(length):
    (source,) = [s for n, s in program_of((512, length), "bf16").sources.items() if "layer_norm_gradients" in n]
    assert compile_source(source).cubin[:4] == b"\x7fELF"


def rms_program(shape, dtype, axes=1, affine=True, result=False):
    def gradients(x, weight, dy):
        normalized = lambda x, weight=None: flow.rms_norm(x, shape[-axes:], weight, eps=EPSILON)  # noqa: E731
        y, pull = flow.vjp(normalized, *((x, weight) if affine else (x,)))
        return (*pull(dy), y) if result else pull(dy)

    specs = [flow.TensorSpec(s, TYPES[dtype][0]) for s in (shape, shape[-axes:], shape)]
    module = flow.trace(gradients, *specs)
    with module.context, ir.Location.unknown():
        Pipeline.parse(pipeline_between(None, "triton"), module.context).run(module, REGISTRY)
        return read_program(module)


@pytest.mark.parametrize("result", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("shape", "axes"), [((300, 40), 1), ((3, 128, 128), 1), ((257, 6, 10), 2)], ids=str)
def test_gradients_of_rms_norm(shape, axes, dtype, result):
    program = rms_program(shape, dtype, axes, result=result)
    (source,) = [s for n, s in program.sources.items() if "rms_norm_gradients" in n]
    assert ("tl.sqrt(" in source.text) != result
    _, kind, tolerance = TYPES[dtype]
    rng = np.random.default_rng(7)
    given = [rng.standard_normal(s).astype(kind) for s in (shape, shape[-axes:], shape)]
    x, weight, dy = (a.astype(np.float64) for a in given)
    row, lead = tuple(range(x.ndim - axes, x.ndim)), tuple(range(x.ndim - axes))
    inverse = 1 / np.sqrt((x**2).mean(row, keepdims=True) + EPSILON)
    normal, slope = x * inverse, dy * weight
    wanted = (slope - normal * (slope * normal).mean(row, keepdims=True)) * inverse, (dy * normal).sum(lead)
    for one, want in zip(interpret_program(program, *given)[:2], wanted, strict=True):
        found = np.asarray(one).view(kind).astype(np.float64)
        np.testing.assert_allclose(found, want, rtol=tolerance, atol=tolerance * np.abs(want).max())


def test_rms_norm_of_few_rows_or_without_a_weight_is_not_joined():
    for program in (rms_program((100, 64), "f32"), rms_program((300, 64), "f32", affine=False)):
        assert not any("rms_norm_gradients" in name for name in program.sources)


def test_gradients_of_rms_norm_compile_for_a_device():
    (source,) = [s for n, s in rms_program((512, 768), "bf16").sources.items() if "rms_norm_gradients" in n]
    assert compile_source(source).cubin[:4] == b"\x7fELF"
