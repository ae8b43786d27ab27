"""Greedy against OneFlow's rules, auto against greedy and against exhaustive search."""

import itertools

import numpy as np
import pytest
from sbp_programs import annotate, run_passes

from oneflow.dialect.reader import read_module
from oneflow.dialect.record import REGISTRY
from oneflow.dialect.sbp import B, P, S
from oneflow.passes.pipeline import PipelineFailure
from oneflow.passes.sbp.auto import choose_cheapest
from oneflow.passes.sbp.boxing import Boxing
from oneflow.passes.sbp.cost import Costs, Machine
from oneflow.passes.sbp.elimination import choose_by_elimination
from oneflow.passes.sbp.explain import explain
from oneflow.passes.sbp.graph import SbpGraphBuilder
from oneflow.passes.sbp.greedy import choose_greedily
from oneflow.passes.structure import Structure


def graph_of(text, context, mesh):
    """The graph of the one function in `text`; the module has to stay alive with the graph."""
    module = read_module(text, context)
    (function,) = Structure.of(module.operation).functions.values()
    return module, SbpGraphBuilder(mesh, REGISTRY).build(function)


def matmul(a, b, shape=(8, 12, 4)):
    m, k, n = shape
    return (
        f"func.func @main(%a: tensor<{m}x{k}xf32> {annotate(a)}, %b: tensor<{k}x{n}xf32> {annotate(b)})"
        f" -> tensor<{m}x{n}xf32> {{\n"
        f'  %0 = "oneflow.matmul"(%a, %b) : (tensor<{m}x{k}xf32>, tensor<{k}x{n}xf32>) -> tensor<{m}x{n}xf32>\n'
        f"  return %0 : tensor<{m}x{n}xf32>\n}}"
    )


@pytest.mark.parametrize(
    ("a", "b", "want"),
    [
        # Two operands that agree come first.
        (S(0), B, "S(0), B -> S(0)"),
        (B, S(1), "B, S(1) -> S(1)"),
        (S(1), S(0), "S(1), S(0) -> P"),
        (P, B, "P, B -> P"),
        (B, B, "B, B -> B"),
        # One operand agrees: then bytes decide, with a high cost for slicing a whole tensor.
        (S(0), S(0), "S(0), B -> S(0)"),
        (S(0), P, "S(0), B -> S(0)"),
        (P, P, "P, B -> P"),
        (S(1), B, "S(0), B -> S(0)"),
    ],
    ids=str,
)
def test_greedy_on_one_axis(a, b, want, context):
    """As `Operator::InferSbpSignature` sorts: -10 for each operand that agrees, then bytes."""
    with context:
        _, graph = graph_of(matmul((a,), (b,)), context, (2,))
        node = next(n for n in graph.nodes if n.role == "operator")
        assert str(choose_greedily(graph, (2,))[node]) == want


def test_greedy_on_two_axes(context):
    """The first signature whose operands all agree, else the cheapest transfer."""
    with context:
        _, graph = graph_of(matmul((S(0), B), (B, S(1))), context, (2, 2))
        node = next(n for n in graph.nodes if n.role == "operator")
        assert str(choose_greedily(graph, (2, 2))[node]) == "[S(0), B], [B, S(1)] -> [S(0), S(1)]"
        _, graph = graph_of(matmul((S(0), S(0)), (B, P)), context, (2, 2))
        node = next(n for n in graph.nodes if n.role == "operator")
        assert str(choose_greedily(graph, (2, 2))[node]) == "[S(0), S(0)], [B, B] -> [S(0), S(0)]"


CHAIN = """
func.func @main(%x: tensor<6x8xf32> {x}, %w: tensor<8x4xf32>, %b: tensor<4xf32>)
    -> (tensor<6x4xf32>, tensor<1xf32> {y}) {{
  %0 = "oneflow.matmul"(%x, %w) : (tensor<6x8xf32>, tensor<8x4xf32>) -> tensor<6x4xf32>
  %1 = "oneflow.broadcast_add"(%0, %b) : (tensor<6x4xf32>, tensor<4xf32>) -> tensor<6x4xf32>
  %2 = "oneflow.relu"(%1) : (tensor<6x4xf32>) -> tensor<6x4xf32>
  %3 = "oneflow.reduce_sum"(%2) {{axis = [0 : si32, 1 : si32]}} : (tensor<6x4xf32>) -> tensor<f32>
  %4 = "oneflow.reshape"(%3) {{shape = [1]}} : (tensor<f32>) -> tensor<1xf32>
  return %2, %4 : tensor<6x4xf32>, tensor<1xf32>
}}
"""


def exhaustive(graph, costs):
    """The least total cost of all assignments."""
    best = np.inf
    for signatures in itertools.product(*(n.candidates.signatures for n in graph.nodes)):
        best = min(best, costs.total(graph, dict(zip(graph.nodes, signatures, strict=True))))
    return best


@pytest.mark.parametrize("x", [S(0), S(1), P], ids=str)
@pytest.mark.parametrize("machine", [Machine(), Machine(1e-3, 0.1, 1e-3), Machine(1.0, 0.0, 1e-4)], ids=str)
def test_auto_is_optimal(x, machine, context):
    """The solver finds the optimum of exhaustive search, and greedy is never better."""
    with context:
        text = CHAIN.format(x=annotate((x,)), y=annotate((B,)))
        _, graph = graph_of(text, context, (2,))
        costs = Costs((2,), machine, Boxing((2,)))
        greedy = choose_greedily(graph, (2,))
        found = choose_cheapest(graph, costs, greedy, 60.0)
        assert found is not None
        assert costs.total(graph, found) <= costs.total(graph, greedy)
        assert costs.total(graph, found) == pytest.approx(exhaustive(graph, costs), rel=1e-9)


def test_auto_moves_a_tensor_once_for_two_uses(context):
    """Two operators that want one layout share its cost."""
    text = """
    func.func @main(%x: tensor<8x8xf32> {oneflow.nd_sbp = [#sbp.split<0>]}) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
      %0 = "oneflow.cumsum"(%x) {dim = 0} : (tensor<8x8xf32>) -> tensor<8x8xf32>
      %1 = "oneflow.cumsum"(%x) {dim = 0} : (tensor<8x8xf32>) -> tensor<8x8xf32>
      return %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
    }"""
    with context:
        _, graph = graph_of(text, context, (2,))
        costs = Costs((2,), Machine(latency=1.0), Boxing((2,)))
        found = choose_cheapest(graph, costs, choose_greedily(graph, (2,)), 60.0)
        assert found is not None
        assert costs.total(graph, found) == pytest.approx(exhaustive(graph, costs), rel=1e-9)
        assert 1.0 < costs.total(graph, found) < 2.0
        assert "us, 128 bytes moved" in explain("main", graph, found, costs)


def test_strategies_keep_the_memory_limit(context):
    """With less memory, more is split; with too little, the error states the memory that greedy needs."""
    text = """
    func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
      %0 = "oneflow.tanh"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
      return %0 : tensor<64x64xf32>
    }"""
    with context:
        _, graph = graph_of(text, context, (2, 2))
        slow = Machine(compute=1e9, memory=8192e-9 + 1e-12)
        costs = Costs((2, 2), slow, Boxing((2, 2)))
        found = choose_cheapest(graph, costs, choose_greedily(graph, (2, 2)), 60.0)
        assert found is not None and costs.memory(graph, found) == 8192
        module = read_module(text, context)
        with pytest.raises(PipelineFailure, match=r"fit in memory=1e-06 GB .*greedily chosen ones need 3.28e-05 GB"):
            run_passes(module, "oneflow-infer-sbp{strategy=auto mesh=2,2 memory=1e-6}")


def long_program(layers):
    """Matrix products, additions and activations, as in a deep network."""
    lines, x, kind = [], "%x", "tensor<32x64xf32>"
    for i in range(layers):
        lines += [
            f'%a{i} = "oneflow.matmul"({x}, %w) : (tensor<32x64xf32>, tensor<64x64xf32>) -> tensor<32x64xf32>',
            f'%b{i} = "oneflow.broadcast_add"(%a{i}, %b) : (tensor<32x64xf32>, tensor<64xf32>) -> tensor<32x64xf32>',
            f'%c{i} = "oneflow.gelu"(%b{i}) : (tensor<32x64xf32>) -> tensor<32x64xf32>',
            f'%d{i} = "oneflow.broadcast_mul"(%c{i}, {x}) : ({kind}, {kind}) -> {kind}',
        ]
        x = f"%d{i}"
    head = (
        f"func.func @main(%x: tensor<32x64xf32> {annotate((S(0), B))}, %w: tensor<64x64xf32> {annotate((B, S(1)))},"
        f" %b: tensor<64xf32>) -> tensor<32x64xf32> {{"
    )
    return "\n".join([head, *lines, f"return {x} : tensor<32x64xf32>", "}"])


@pytest.mark.parametrize("x", [S(0), S(1), P], ids=str)
def test_elimination_is_optimal_on_trees(x, context):
    """If no tensor is moved twice, elimination node by node finds the optimum of exhaustive search."""
    with context:
        text = CHAIN.format(x=annotate((x,)), y=annotate((B,)))
        _, graph = graph_of(text, context, (2,))
        costs = Costs((2,), Machine(1e-3, 0.1, 1e-3), Boxing((2,)))
        found = choose_by_elimination(graph, costs, choose_greedily(graph, (2,)))
        assert found is not None
        assert costs.total(graph, found) == pytest.approx(exhaustive(graph, costs), rel=1e-9)


def test_elimination_keeps_memory(context):
    """The price of memory rises until tensors fit."""
    text = """
    func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
      %0 = "oneflow.tanh"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
      return %0 : tensor<64x64xf32>
    }"""
    with context:
        _, graph = graph_of(text, context, (2, 2))
        costs = Costs((2, 2), Machine(compute=1e9, memory=8192e-9 + 1e-12), Boxing((2, 2)))
        found = choose_by_elimination(graph, costs, choose_greedily(graph, (2, 2)))
        assert found is not None and costs.memory(graph, found) == 8192


@pytest.mark.parametrize("layers", [3, 300])
def test_large_programs_are_not_worse(layers, context):
    """With a weight that all layers share: the solver's choice for a few layers, and better than greedy for many."""
    with context:
        _, graph = graph_of(long_program(layers), context, (2, 2))
        costs = Costs((2, 2), Machine(), Boxing((2, 2)))
        greedy = choose_greedily(graph, (2, 2))
        found = choose_cheapest(graph, costs, greedy, 60.0)
        by_elimination = choose_by_elimination(graph, costs, greedy)
        assert found is not None and by_elimination is not None
        assert costs.total(graph, found) < costs.total(graph, greedy)
        assert costs.total(graph, by_elimination) == pytest.approx(costs.total(graph, found), rel=1e-9)


def test_the_search_for_costs_ends_at_the_time_limit(context):
    """Once the time is over the choice is the greedy one, and costs can be found again."""
    with context:
        text = matmul((S(0), B), (B, S(1)))
    _module, graph = graph_of(text, context, (2, 2))
    costs = Costs((2, 2), Machine(), Boxing((2, 2)))
    greedy = choose_greedily(graph, (2, 2))
    assert choose_cheapest(graph, costs, greedy, -1.0, min_seconds=-1.0) == greedy
    assert not costs._transfers
    cheapest = choose_cheapest(graph, costs, greedy, 60.0)
    assert cheapest is not None and costs.total(graph, cheapest) <= costs.total(graph, greedy)
