"""Programs whose ranks issue different collectives are found, by the check and by the simulation."""

import numpy as np
import pytest
from sbp_programs import distribute, run_passes

from oneflow.dialect._mlir import ir
from oneflow.dialect.nd_sbp import broadcast
from oneflow.dialect.record import REGISTRY
from oneflow.passes.base import PassError
from oneflow.passes.sbp.collectives import check_same_collectives, collectives_of
from oneflow.passes.to_physical import physical
from oneflow.testing import simulate as simulation

PROGRAM = """
func.func @main(%x: tensor<6x4xf32> {oneflow.nd_sbp = [#sbp.split<0>]}, %y: tensor<6x4xf32> {oneflow.nd_sbp = [#sbp.partial_sum]})
    -> (tensor<6x4xf32> {oneflow.nd_sbp = [#sbp.broadcast]}, tensor<6x4xf32> {oneflow.nd_sbp = [#sbp.broadcast]}) {
  return %x, %y : tensor<6x4xf32>, tensor<6x4xf32>
}
"""  # noqa: E501


def ranks(context, mesh=(2,)):
    module = distribute(PROGRAM, context, mesh)
    return [physical(module, r, REGISTRY) for r in range(2)]


def run(modules):
    programs = [{"main": m.body.operations[0].operation} for m in modules]
    shards = [np.zeros((3, 4), np.float32), np.zeros((6, 4), np.float32)]
    return simulation._run_ranks([simulation._run(p, "main", shards, REGISTRY) for p in programs], (2,))


def swapped(context):
    """The programs of two ranks, the collectives of the second in another order."""
    one, two = ranks(context)
    first, second = collectives_of(two, REGISTRY)
    second.move_before(first)
    return one, two


def test_matching_collectives_are_accepted(context):
    """The collectives that the passes write match."""
    with context:
        modules = ranks(context)
        check_same_collectives(modules, REGISTRY, (2,))
        assert [len(r) for r in run(modules)] == [2, 2]


def test_reordered_collectives_are_refused(context):
    """The two errors name the waiting rank and the collective."""
    with context:
        modules = swapped(context)
        with pytest.raises(
            PassError, match=r"the same collective 0, got oneflow.ccl_all_gather .* on rank 0 and .* on rank 1"
        ):
            check_same_collectives(modules, REGISTRY, (2,))
        with pytest.raises(
            simulation.SimulationError,
            match=r"rank 0 waits at ccl_all_gather along mesh axes \[0\] for rank 1, which is at ccl_all_reduce",
        ):
            run(modules)


def test_missing_collective_is_refused(context):
    """A rank that leaves out a collective leaves the others waiting."""
    with context, ir.Location.unknown():
        one, two = ranks(context)
        last = collectives_of(two, REGISTRY)[1]
        last.results[0].replace_all_uses_with(last.operands[0])
        last.erase()
        with pytest.raises(PassError, match="the same collectives, got 2 on rank 0 and 1 on rank 1"):
            check_same_collectives([one, two], REGISTRY, (2,))
        with pytest.raises(simulation.SimulationError, match="for rank 1, which has returned"):
            run([one, two])


SUMS = """
func.func @main(%x: tensor<6x4xf32> {oneflow.nd_sbp = [#sbp.partial_sum]}, %y: tensor<3xf32> {oneflow.nd_sbp = [#sbp.partial_sum]})
    -> (tensor<6x4xf32> {oneflow.nd_sbp = [#sbp.broadcast]}, tensor<3xf32> {oneflow.nd_sbp = [#sbp.broadcast]}) {
  return %x, %y : tensor<6x4xf32>, tensor<3xf32>
}
"""  # noqa: E501


def test_joined_collectives_of_different_sizes_are_refused(context):
    """A rank that joins two sums, where the other has the first alone, is found."""
    with context:
        module = distribute(SUMS, context, (2,))
        one = physical(module, 0, REGISTRY)
        run_passes(module, "oneflow-join-boxing")
        two = physical(module, 1, REGISTRY)
        assert [len(collectives_of(m, REGISTRY)) for m in (one, two)] == [2, 1]
        with pytest.raises(PassError, match="the same number of tensors, got 1 and 2"):
            check_same_collectives([one, two], REGISTRY, (2,))


def test_broadcast_shards_that_differ_are_refused(context):
    """Whole results have to be equal on all ranks, to the bit."""
    shards = [np.zeros(2), np.array([0.0, -0.0])]
    with pytest.raises(simulation.SimulationError, match="ranks 0 and 1 have other values of B"):
        simulation.assemble(shards, broadcast((2,)), (2,))


def test_several_placements(context):
    """The error of the simulation names the ways to run such programs."""
    with context:
        module = ir.Module.parse("module attributes {oneflow.mesh = array<i64: 2>, oneflow.placements = {}} {}")
        with pytest.raises(simulation.SimulationError, match="oneflow-run --simulate runs programs of several"):
            simulation.simulate(module, [])
