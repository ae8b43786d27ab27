"""The memo of inference: equal calls share a result, calls that differ in an attribute do not."""

from oneflow.dialect import ops  # noqa: F401
from oneflow.dialect._mlir import ir
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.dialect.record import REGISTRY
from oneflow.passes.infer_types import InferTypes

PAIR = """
  %{0}a = "oneflow.cast"(%x) {{dtype = bf16}} : (tensor<3xf32>) -> tensor<*xbf16>
  %{0}b = "oneflow.cast"(%x) {{dtype = f64}} : (tensor<3xf32>) -> tensor<*xf64>"""


def test_calls_with_other_attributes_are_inferred_separately():
    body = "".join(PAIR.format(f"v{n}") for n in range(40))
    context = create_context()
    module = read_module(f"func.func @f(%x: tensor<3xf32>) {{{body}\n  return\n}}", context)
    with context, ir.Location.unknown():
        InferTypes().run(module, REGISTRY)
    text = str(module)
    assert (text.count("tensor<3xbf16>"), text.count("tensor<3xf64>")) == (40, 40)
