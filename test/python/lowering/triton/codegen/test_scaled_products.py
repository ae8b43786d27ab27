"""Products of floats of 8 bits: tensor cores multiply on GPUs with support; results are right on all targets."""

import ml_dtypes
import numpy as np
import pytest
from test_hopper_attention import program_of

import oneflow as flow
from oneflow.lowering.targets.selection import gpu_target_named, using_gpu
from oneflow.runtime.cuda.compiler import compile_source
from oneflow.testing.triton_interpreter import interpret_program

E4, E5 = flow.float8_e4m3fn, flow.float8_e5m2


def linear(x, w, s, t):
    return flow._scaled_mm(x, w.t(), s, t, out_dtype=flow.bfloat16)


def program(arch, sizes, left=E4, right=E4, function=linear):
    """The program of a product of (m, k) by transposed (n, k) for an architecture."""
    m, n, k = sizes
    specs = [flow.TensorSpec((m, k), left), flow.TensorSpec((n, k), right)]
    scales = [flow.TensorSpec((), flow.float32)] * 2
    with using_gpu(gpu_target_named(arch)):
        return program_of(function, [*specs, *scales], None).on(arch)


def product_of(program):
    (source,) = (s for s in program.sources.values() if "tl.dot" in s.text)
    return source


@pytest.mark.parametrize(("arch", "is_imprecise"), [("sm_89", False), ("sm_90", True), ("sm_100", False)])
def test_float8_sums_are_accumulated_in_short_chains(arch, is_imprecise):
    """Accumulators of `wgmma` alone have fewer bits than f32 for products of 8-bit floats."""
    source = product_of(program(arch, (512, 512, 1024)))
    assert dict(source.parameters)["p0"] == "*fp8e4nv"
    assert ("max_num_imprecise_acc=128" in source.text) == is_imprecise


@pytest.mark.parametrize(
    ("arch", "left", "right", "pointer"),
    [("sm_90", E4, E4, "*fp8e4nv"), ("sm_90", E5, E5, "*fp8e5"), ("sm_90", E4, E5, "*i8"), ("sm_80", E4, E4, "*i8")],
)
def test_tensor_cores_multiply_floats_of_8_bits(arch, left, right, pointer):
    source = product_of(program(arch, (512, 512, 1024), left, right))
    assert [kind for _, kind in source.parameters][:2] == [pointer] * 2
    assert ("max_num_imprecise_acc" in source.text) == (pointer != "*i8")
    binary = compile_source(source, arch)
    assert binary.cubin[:4] == b"\x7fELF"
    if arch == "sm_90":
        assert ("e4m3.e4m3" in binary.ptx or "e5m2.e5m2" in binary.ptx) == (pointer != "*i8")


def test_operands_that_are_not_along_the_depth_become_f16():
    def rows(x, w, s, t):
        return flow._scaled_mm(x, flow.reshape(w, (64, 32)), s, t, out_dtype=flow.float32)

    source = product_of(program("sm_90", (64, 32, 64), function=rows))
    assert ".to(tl.float16)" in source.text and "*fp8e4nv" not in dict(source.parameters).values()


def test_masked_operands_compile():
    assert compile_source(product_of(program("sm_90", (17, 24, 40))), "sm_90").cubin[:4] == b"\x7fELF"


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("sizes", [(32, 32, 64), (17, 24, 40)], ids=str)
def test_results(sizes, arch):
    m, n, k = sizes
    rng = np.random.default_rng(3)
    x, w = (rng.standard_normal(s).astype(ml_dtypes.float8_e4m3fn) for s in ((m, k), (n, k)))
    scales = np.float32(0.5), np.float32(4)
    (got,) = interpret_program(program(arch, sizes), x, w, *map(np.asarray, scales))
    want = x.astype(np.float64) @ w.astype(np.float64).T * 2
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=1e-2, atol=1e-2)
