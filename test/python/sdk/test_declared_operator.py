"""The whole way of an operator: declared in ODS, implemented in the generated classes, called as `flow._C.<name>`."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

import oneflow as flow
from oneflow.dialect import dtypes as dt
from oneflow.testing import Sample, t
from oneflow.testing.user_operators import check_op
from oneflow.tools import oneflow_opt, oneflow_translate

HERE = Path(__file__).parent / "libraries"
STANDARDS = ["c++11", "c++17"]
X = np.array([[-1.0, 0.5], [1.5, 0.25]], np.float32)
PROGRAM = """func.func @main(%x: tensor<2x3xf32>) -> tensor<*xf32> {
  %0 = "oneflow.flow_hinge"(%x) {margin = 0.5 : f32} : (tensor<2x3xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
"""


def translate(option, file, target, *more):
    assert oneflow_translate.main([option, str(HERE / file), "-o", str(target), *more]) == 0


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """The library, with generated parts in the folders of OneFlow's build."""
    folder = tmp_path_factory.mktemp("hinge")
    translate("--gen-op-schema", "hinge.td", folder / "oneflow/core/framework/op_generated.h")
    translate("--gen-functional-api", "hinge.yaml", folder / "oneflow/core/functional/functional_api.yaml.h")
    translate("--import-ods", "hinge.td", folder / "op_generated.cpp")
    for standard in STANDARDS:
        flags = [*flow.sysconfig.get_compile_flags(), f"-std={standard}", *flow.sysconfig.get_link_flags()]
        sources = [str(folder / "op_generated.cpp"), str(HERE / "hinge.cpp")]
        command = ["c++", f"-I{folder}", "-Wall", "-Werror", "-fPIC", "-shared", *sources, *flags]
        subprocess.run([*command, "-o", str(folder / f"{standard}.so")], check=True)
    return folder / "c++11.so"


@pytest.fixture(scope="session")
def hinge(library):
    flow.config.load_library(library)
    flow.config.load_functional_api(HERE / "hinge.yaml")
    return flow._C.flow_hinge


def test_call_of_the_declared_operator(hinge):
    np.testing.assert_array_equal(hinge(flow.Tensor(X)).numpy(), np.maximum(0, 1 - X))
    np.testing.assert_array_equal(hinge(flow.Tensor(X), margin=0.5).numpy(), np.maximum(0, np.float32(0.5) - X))
    program = flow.compile(lambda x: flow._C.flow_hinge(x * 2.0, 0.5) + 1.0)
    np.testing.assert_array_equal(program(X), np.maximum(0, np.float32(0.5) - X * 2) + 1)
    assert not hasattr(flow._C, "flow_hinge_grad")


def test_gradient_of_the_declared_operator(hinge):
    x = flow.tensor(X, requires_grad=True)
    (hinge(x, 0.5) * flow.tensor(X)).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.where(X < 0.5, -X, 0))
    compiled = flow.compile(flow.grad(lambda x: (hinge(x, 0.5) * flow.tensor(X)).sum()))
    np.testing.assert_array_equal(compiled(X), np.where(X < 0.5, -X, 0))


def test_declared_operators_have_all_slots(hinge):
    check_op(
        "flow_hinge",
        [
            Sample(
                "flow_hinge", [t(3, 4)], {"margin": 0.3}, dtypes=[dt.float64, dt.float32], second_order=False, why="-"
            )
        ],
    )


def test_programs_are_verified_by_the_declaration_and_inferred_by_the_library(library, hinge, tmp_path, capsys):
    path = tmp_path / "program.mlir"
    path.write_text(PROGRAM)
    assert oneflow_opt.main([str(path), f"--load-ops={library}", "--oneflow-infer-types"]) == 0
    assert "(tensor<2x3xf32>) -> tensor<2x3xf32>" in capsys.readouterr().out


def test_build_flags_of_sysconfig(tmp_path, monkeypatch):
    assert flow.sysconfig.with_mlir() and flow.sysconfig.with_mlir_cuda_codegen()
    assert not flow.sysconfig.with_rdma()
    assert flow.sysconfig.get_liboneflow_link_flags() == flow.sysconfig.get_link_flags()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert flow.sysconfig.get_cuda_version() == 0
    (tmp_path / "nvcc").write_text("#!/bin/sh\necho 'Cuda compilation tools, release 12.4, V12.4.99'\n")
    (tmp_path / "nvcc").chmod(0o755)
    assert flow.sysconfig.get_cuda_version() == 12040
