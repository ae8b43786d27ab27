"""Passes do not repeat work: for operations in bodies, and for equal operations."""

import sys
from typing import Any

import pytest
from call_counts import calls_of, counting, recorded

import oneflow as flow
from oneflow.dialect import ops  # noqa: F401
from oneflow.dialect._mlir import ir
from oneflow.dialect.oneflow import Verifier, create_context
from oneflow.lowering.kernels import nodes
from oneflow.lowering.kernels.form_kernels import fuse_elementwise
from oneflow.lowering.kernels.nodes import read_node
from oneflow.lowering.pipelines import PREVIOUS_STAGE, STAGES
from oneflow.lowering.triton import symbolic_sizes
from oneflow.lowering.triton.symbolic_sizes import Size
from oneflow.passes.pipeline import Pipeline, Watch
from oneflow.passes.structure import operands_of


def generic(result, x, body="%0 = arith.addf %a, %a : f32", y="%0"):
    """An element-wise operation on 8 numbers."""
    return f"""
  {result} = linalg.generic {{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
      iterator_types = ["parallel"]}} ins({x} : tensor<8xf32>) outs(%e : tensor<8xf32>) {{
  ^bb0(%a: f32, %b: f32):
    {body}
    linalg.yield {y} : f32
  }} -> tensor<8xf32>"""


def program(*operations, last):
    return ir.Module.parse(
        f"func.func @main(%x: tensor<8xf32>, %s: f32) -> tensor<8xf32> {{\n  %e = tensor.empty() : tensor<8xf32>"
        f"{''.join(operations)}\n  return {last} : tensor<8xf32>\n}}",
        create_context(),
    )


@pytest.mark.parametrize("work", [lambda m: Verifier().verify(m.operation), fuse_elementwise])
def test_passes_do_not_walk_bodies(work):
    lines = ["%0 = math.exp %a : f32", *(f"%{i} = math.exp %{i - 1} : f32" for i in range(1, 30))]
    few, many = (program(generic("%y", "%x", "\n".join(lines[:n]), f"%{n - 1}"), last="%y") for n in (2, 30))
    counts = []
    for module in (few, many):
        with module.context, ir.Location.unknown():
            work(module)
            counts.append(calls_of(work, module))
    assert counts[0] == counts[1]


def test_equal_operations_are_read_once(monkeypatch):
    size, asked = nodes._size, list[Any]()
    monkeypatch.setattr(nodes, "_size", recorded(size, asked, lambda kind, axis: axis))
    module = program(generic("%y", "%x"), generic("%z", "%y"), last="%z")
    found = [o.operation for o in module.body.operations[0].regions[0].blocks[0].operations]
    one, other = (read_node(op) for op in found if op.name == "linalg.generic")
    assert asked == [0, 0] and one.inputs[0].access == other.inputs[0].access and one.inputs[0] != other.inputs[0]


def test_operands_of_a_body_are_its_captured_values():
    module = program(generic("%y", "%x", "%1 = arith.mulf %a, %a : f32\n%0 = arith.addf %1, %s : f32"), last="%y")
    block = module.body.operations[0].regions[0].blocks[0]
    empty, op = (o.operation for o in list(block.operations)[:2])
    x, s = block.arguments
    assert operands_of(op) == [x, empty.results[0], s]


def test_no_dialect_module_is_searched(monkeypatch):
    asked = []

    class Finder:
        @staticmethod
        def find_spec(name, *_):
            asked.append(name)

    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    module = flow.trace(flow.relu, flow.TensorSpec((2,)))
    names = [o.operation.name for o in module.body.operations[0].regions[0].blocks[0].operations]
    assert names[0] == "oneflow.relu" and not [n for n in asked if n.endswith("dialects.oneflow")]


def test_static_sizes_are_computed_as_numbers(monkeypatch):
    monkeypatch.setattr(symbolic_sizes, "_collect", None)
    assert Size.of(3) * Size.of(4) + Size.of(2) == Size.of(14) and Size.of(3) * Size() == Size()
    assert Size.of(7).renamed({"p0": Size.of(2)}) == Size.of(7)


def passes_to(stage):
    before = PREVIOUS_STAGE.get(stage)
    return [*(passes_to(before) if before else []), *STAGES[stage]]


def calls_of_passes(stage, count):
    """The calls of each pass to a stage for so many layers of four operators."""

    def layers(x, w, b):
        for _ in range(count):
            x = flow.gelu(x @ w + b) + x
        return x

    module = flow.trace(layers, *[flow.TensorSpec((8, 8))] * 3)
    found: dict[Any, Any] = {}
    with counting() as count_now:
        watch = Watch(reproducers=None, verify_each=False, timing=True, clock=count_now)
        Pipeline.parse(f"builtin.module({','.join(passes_to(stage))})", module.context).run(module, watch=watch)
    for name, calls in watch.seconds:
        found[name] = found.get(name, 0) + calls
    return found


@pytest.mark.parametrize("stage", ["llvm", "triton"])
def test_each_pass_grows_with_the_number_of_operators(stage):
    """Ten further layers take every pass as many calls after thirty layers as after ten."""
    calls_of_passes(stage, 2)  # fills caches
    ten, twenty, thirty, forty = (calls_of_passes(stage, count) for count in (10, 20, 30, 40))
    for name, calls in ten.items():
        first, last = twenty[name] - calls, forty[name] - thirty[name]
        assert last <= 1.05 * first + 20, f"{name}: {first} and {last} calls for ten layers"
