"""Transfers between placements: the number of bytes, and that automatic choices count the bytes."""

import itertools

import numpy as np
import pytest

from oneflow.dialect.reader import read_module
from oneflow.dialect.record import REGISTRY
from oneflow.dialect.sbp import B, S
from oneflow.passes.sbp.auto import choose_cheapest
from oneflow.passes.sbp.boxing import Boxing
from oneflow.passes.sbp.cost import Costs, Machine
from oneflow.passes.sbp.elimination import choose_by_elimination
from oneflow.passes.sbp.graph import SbpGraphBuilder
from oneflow.passes.sbp.greedy import choose_greedily
from oneflow.passes.sbp.placement_transfer import PlacementTransfer
from oneflow.passes.sbp.placements import assign_placements
from oneflow.passes.sbp.submeshes import Submesh, read_submeshes
from oneflow.passes.structure import Structure
from oneflow.testing.simulate import split_array

PLACES = [
    Submesh("one", (2,), (0, 1)), Submesh("overlapping", (2,), (2, 1)), Submesh("apart", (3,), (3, 4, 5)),
    Submesh("grid", (2, 2), (1, 0, 4, 3)),
]  # fmt: skip
SHAPE = (5, 3)


def layouts(submesh):
    return itertools.product((B, S(0), S(1)), repeat=len(submesh.mesh))


@pytest.mark.parametrize(("source", "target"), list(itertools.product(PLACES, PLACES)), ids=lambda p: p.name)
def test_transferred_elements_are_counted(source, target):
    """The elements of a rank's shard that the rank lacks before the transfer, counted element by element."""
    numbers = np.arange(np.prod(SHAPE)).reshape(SHAPE)
    for given, wanted in itertools.product(layouts(source), layouts(target)):
        have = dict(zip(source.members, split_array(numbers, given, source.mesh), strict=True))
        need = dict(zip(target.members, split_array(numbers, wanted, target.mesh), strict=True))
        lacking = sum(len(np.setdiff1d(shard, have.get(rank, []))) for rank, shard in need.items())
        assert PlacementTransfer(source, target, wanted).elements(SHAPE, given) == lacking


STAGES = """
module attributes {oneflow.mesh = array<i64: 3>,
                   oneflow.placements = {a = dense<[0, 1]> : tensor<2xi64>, b = dense<[1, 2]> : tensor<2xi64>}} {
  func.func @main(%x: tensor<8x6xf32> {oneflow.placement = "a"}) -> tensor<8x6xf32> {
    %0 = "oneflow.relu"(%x) : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %1 = "oneflow.hierarchical_parallel_cast"(%0) {nd_sbp = [#sbp.split<0>], placement = "b"}
      : (tensor<8x6xf32>) -> tensor<8x6xf32>
    return %1 : tensor<8x6xf32>
  }
}
"""


@pytest.mark.parametrize(
    ("machine", "want"),
    [(Machine(1e-6, 0.0, 1e3), "B -> B"), (Machine(1e3, 0.0, 1e-6), "S(1) -> S(1)")],
    ids=["slow links", "slow devices"],
)
def test_auto_counts_bytes_between_placements(machine, want, context):
    """Rank 1 is on both placements: over slow links rank 1 computes the whole tensor, as `b` needs its other half."""
    module = read_module(STAGES, context)
    submeshes = read_submeshes(module.operation)
    (function,) = Structure.of(module.operation).functions.values()
    with context:
        assign_placements(function, submeshes, REGISTRY)
        graph = SbpGraphBuilder((2,), REGISTRY, submeshes=submeshes, placement="a").build(function)
        costs, greedy = Costs((2,), machine, Boxing((2,))), choose_greedily(graph, (2,))
        every = itertools.product(*(n.candidates.signatures for n in graph.nodes))
        best = min(costs.total(graph, dict(zip(graph.nodes, one, strict=True))) for one in every)
        for found in (choose_cheapest(graph, costs, greedy, 60.0), choose_by_elimination(graph, costs, greedy)):
            assert found is not None
            assert costs.total(graph, found) == pytest.approx(best)
            assert next(str(s) for n, s in found.items() if n.role == "operator") == want
        cheapest = choose_cheapest(graph, costs, greedy, 60.0)
        assert cheapest is not None
        assert costs.bytes_moved(graph, cheapest) == (96 if want == "B -> B" else 144)
