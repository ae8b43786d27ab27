"""Kernels of a C++ library between compiled kernels: values, the cache on disk, failures, memory that is shared."""

import re

import numpy as np
import pytest

from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.dialect.record import OperatorError
from oneflow.lowering.pipelines import pipeline_between
from oneflow.lowering.triton.launch.program import read_program
from oneflow.passes.base import PassError
from oneflow.passes.pipeline import Pipeline
from oneflow.runtime.arguments import ArgumentError
from oneflow.runtime.executable import KernelError, Options, compile_module
from oneflow.runtime.size_specialization import compile_program
from oneflow.runtime.user_ops.bounds_checks import check_bounds

MIXED = """
func.func @main(%x: tensor<3x4xf32>, %y: tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>) {
  %0 = "oneflow.exp"(%x) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %1 = "oneflow.t_scale"(%0) {factor = 1.5 : f32} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %2 = "oneflow.broadcast_add"(%1, %y) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %3 = "oneflow.t_scale"(%2) {factor = -2.0 : f32} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  return %3, %1 : tensor<3x4xf32>, tensor<3x4xf32>
}
"""


def compiled(text, registry, **options):
    module = read_module(text, create_context(registry), "program.mlir", registry)
    return compile_module(module, options=Options(**options), registry=registry)


@pytest.mark.parametrize("cached", [True, False])
def test_user_kernels_between_compiled_kernels(sampler, cached):
    x, y = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    for _ in range(2):
        second, first = compiled(MIXED, sampler, cached=cached)(x, y)
        np.testing.assert_allclose(first, np.exp(x) * 1.5, rtol=1e-6)
        np.testing.assert_allclose(second, (np.exp(x) * np.float32(1.5) + y) * -2, rtol=1e-6)


def test_several_results_and_operands(sampler):
    text = """
    func.func @main(%a: tensor<6xf32>, %b: tensor<6xf32>) -> (tensor<3xf64>, tensor<3xf64>, tensor<i64>) {
      %0:3 = "oneflow.t_halves"(%a, %a, %b) : (tensor<6xf32>, tensor<6xf32>, tensor<6xf32>)
          -> (tensor<3xf64>, tensor<3xf64>, tensor<i64>)
      return %0#0, %0#1, %0#2 : tensor<3xf64>, tensor<3xf64>, tensor<i64>
    }"""
    a, b = np.arange(6, dtype=np.float32), np.arange(6, 12, dtype=np.float32)
    first, second, count = compiled(text, sampler)(a, b)
    np.testing.assert_array_equal(first, [0, 1, 2])
    np.testing.assert_array_equal(second, [9, 10, 11])
    assert count == 3


def test_the_linalg_stage_names_operator_attributes_and_types(sampler):
    linalg = compiled(MIXED, sampler).ir("linalg")
    assert linalg.count("call @oneflow_user_kernel_") == 2
    external = r'attributes = \{factor = -2\.000000e\+00 : f32\}, location = "[^"]*", operator = "oneflow\.t_scale"'
    assert re.search(external, linalg)
    assert "types = (tensor<3x4xf32>) -> tensor<3x4xf32>" in linalg
    # Constants of f32 may be written as 8 digits; addresses are longer.
    assert not re.search(r"0x[0-9A-Fa-f]{9}", compiled(MIXED, sampler).ir("llvm"))


def failing_text(mode, size="2"):
    kind = f"tensor<{size}xf32>"
    return f"""func.func @main(%x: {kind}) -> {kind} {{
      %0 = "oneflow.t_failing"(%x) {{mode = "{mode}", operandSegmentSizes = array<i32: 1, 0, 0>}} : ({kind}) -> {kind}
      %1 = "oneflow.relu"(%0) : ({kind}) -> {kind}
      return %1 : {kind}
    }}"""


def test_a_failing_kernel_is_a_located_error(failing):
    program = compiled(failing_text("kernel_throws"), failing)
    for _ in range(2):
        with pytest.raises(KernelError, match=r"oneflow.t_failing: .*thrown by the kernel(?s:.*) \(-:2:12\)"):
            program(np.ones(2, np.float32))


def test_a_call_that_no_kernel_matches_is_a_located_error(failing):
    with pytest.raises(OperatorError, match=r"no kernel matches on cpu for (?s:.*) \(-:2:?.*\)"):
        compiled(failing_text("no_kernel"), failing)


def test_a_dynamic_size_is_refused_at_a_stage(failing):
    with pytest.raises(PassError, match="expected static shapes for an external kernel, got"):
        compiled(failing_text("", "?"), failing)


DYNAMIC = """
func.func @main(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>) -> tensor<?x?xf32> {
  %0 = "oneflow.exp"(%x) : (tensor<?x4xf32>) -> tensor<?x?xf32>
  %1 = "oneflow.t_scale"(%0) {factor = 3.0 : f32} : (tensor<?x?xf32>) -> tensor<?x?xf32>
  %2 = "oneflow.matmul"(%1, %y) {transpose_b = true} : (tensor<?x?xf32>, tensor<?x4xf32>) -> tensor<?x?xf32>
  %3 = "oneflow.t_scale"(%2) {factor = -2.0 : f32} : (tensor<?x?xf32>) -> tensor<?x?xf32>
  return %3 : tensor<?x?xf32>
}
"""


def sized(text, registry):
    module = read_module(text, create_context(registry), "program.mlir", registry)
    return compile_program(module, options=Options(cached=False), registry=registry)


def test_sizes_known_at_run_time(sampler):
    program = sized(DYNAMIC, sampler)
    with pytest.raises(ValueError, match="ir is known after the first call"):
        program.ir("linalg")
    for rows, columns in ((2, 3), (5, 1), (2, 3), (0, 2)):
        x, y = np.ones((rows, 4), np.float32), np.full((columns, 4), 2, np.float32)
        np.testing.assert_allclose(program(x, y)[0], (np.exp(x) * 3) @ y.T * -2, rtol=1e-5)
    assert len(program._programs) == 3 and program.memory.results == 0
    assert "tensor<0x4xf32>" in program.ir("linalg")
    with pytest.raises(ArgumentError, match=r"argument 'arg0': expected tensor<\?x4xf32>, got .*\(2, 5\)"):
        program(np.ones((2, 5), np.float32), np.ones((2, 4), np.float32))


def test_sizes_that_the_infer_function_refuses_at_run_time(sampler):
    text = """func.func @main(%a: tensor<?xf32>) -> (tensor<?xf64>, tensor<?xf64>, tensor<i64>) {
      %0:3 = "oneflow.t_halves"(%a, %a, %a) : (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
          -> (tensor<?xf64>, tensor<?xf64>, tensor<i64>)
      return %0#0, %0#1, %0#2 : tensor<?xf64>, tensor<?xf64>, tensor<i64>
    }"""
    program = sized(text, sampler)
    first, _, count = program(np.arange(6, dtype=np.float32))
    np.testing.assert_array_equal(first, [0, 1, 2])
    assert count == 3
    with pytest.raises((OperatorError, PassError), match=r"t_halves: .*Check failed: n % 2 == 0 \(1 vs 0\) elements"):
        program(np.arange(5, dtype=np.float32))


def test_guards_find_writes_out_of_bounds(failing):
    check_bounds(True)
    try:
        with pytest.raises(KernelError, match="8 bytes after the end"):
            compiled(failing_text("overrun"), failing)(np.ones(2, np.float32))
    finally:
        check_bounds(False)


def test_triton_calls_kernels_for_the_host(sampler):
    module = read_module(MIXED, create_context(sampler), "program.mlir", sampler)
    with module.context:
        Pipeline.parse(pipeline_between(None, "triton"), module.context).run(module, sampler)
        assert read_program(module).plan.count("run.host(") == 2
