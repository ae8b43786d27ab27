"""The drawing of a choice is a page that reads as XML, with all nodes, edges and moves."""

import re
from xml.etree import ElementTree

from sbp_programs import run_passes

from oneflow.dialect.reader import read_module

TEXT = """
module attributes {oneflow.mesh = array<i64: 2, 2>} {
func.func @main(%x: tensor<8x6xf32> {oneflow.nd_sbp = [#sbp.split<0>, #sbp.split<1>]}, %w: tensor<6x4xf32>)
    -> (tensor<8x4xf32> {oneflow.nd_sbp = [#sbp.broadcast, #sbp.broadcast]}, tensor<8xf32>) {
  %0 = "oneflow.matmul"(%x, %w) : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
  %1 = "oneflow.reduce_sum"(%0) {axis = [1]} : (tensor<8x4xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<8x4xf32>, tensor<8xf32>
}
}
"""


def test_drawing_of_layouts(context, tmp_path):
    """Six nodes on four levels, five uses of tensors, and every move named with its bytes."""
    with context:
        run_passes(read_module(TEXT, context), f"oneflow-infer-sbp{{view={tmp_path}/page.html}}")
    page = (tmp_path / "page.html").read_text()
    svg = ElementTree.fromstring(re.findall(r"<svg.*?</svg>", page, re.DOTALL)[0])
    space = "{http://www.w3.org/2000/svg}"
    nodes = [r for r in svg.iter(f"{space}rect") if r.get("class") == "node"]
    assert len(nodes) == 6
    assert len({r.get("y") for r in nodes}) == 4
    assert len({(r.get("x"), r.get("y")) for r in nodes}) == 6
    paths = list(svg.iter(f"{space}path"))
    assert len(paths) == 5
    moved = [p for p in paths if p.get("stroke-width") == "2"]
    labels = [t.text for t in svg.iter(f"{space}text") if t.text and t.text.endswith(" B")]
    assert len(labels) >= len(moved) > 0
    assert all(re.fullmatch(r"\w+ \[[SBPM].*\] [\d,]+ B", label) for label in labels)
