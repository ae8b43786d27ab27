"""Programs that take more memory than 32 bits can count: offsets into the workspace."""

import oneflow  # noqa: F401
from oneflow.dialect._mlir import ir
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.dialect.record import REGISTRY
from oneflow.lowering.pipelines import pipeline_between
from oneflow.passes.pipeline import Pipeline

#: Two intermediate tensors of 2.3 GB each, both needed at once.
TEXT = """
func.func @main(%x: tensor<24000x24000xf32>) -> tensor<24000x24000xf32> {
  %0 = "oneflow.softmax"(%x) : (tensor<24000x24000xf32>) -> tensor<24000x24000xf32>
  %1 = "oneflow.matmul"(%0, %x) : (tensor<24000x24000xf32>, tensor<24000x24000xf32>) -> tensor<24000x24000xf32>
  %2 = "oneflow.softmax"(%1) : (tensor<24000x24000xf32>) -> tensor<24000x24000xf32>
  %3 = "oneflow.matmul"(%2, %0) : (tensor<24000x24000xf32>, tensor<24000x24000xf32>) -> tensor<24000x24000xf32>
  return %3 : tensor<24000x24000xf32>
}
"""


def test_a_workspace_of_more_than_two_gigabytes_is_lowered():
    context = create_context()
    module = read_module(TEXT, context)
    with context, ir.Location.unknown():
        Pipeline.parse(pipeline_between(None, "llvm"), context).run(module, REGISTRY)
    assert str(24000 * 24000 * 4) in str(module)
