"""A vocabulary that is split: embeddings, softmax and losses whose classes are split over several devices."""

from typing import Any

import numpy as np
import pytest
from interpreter import functions, run
from sbp_programs import check_distributed, distribute, run_passes

from oneflow.dialect.reader import read_module

LOSS = """
func.func @main(%i: tensor<7xi32>, %e: tensor<9x4xf64> {{oneflow.nd_sbp = {rows}}}, %l: tensor<7xi32>)
    -> (tensor<f64>, tensor<9x4xf64> {{oneflow.nd_sbp = {rows}}}) {{
  %x = "oneflow.embedding"(%e, %i) : (tensor<9x4xf64>, tensor<7xi32>) -> tensor<7x4xf64>
  %z = "oneflow.matmul"(%x, %e) {{transpose_b = true}} : (tensor<7x4xf64>, tensor<9x4xf64>) -> tensor<7x9xf64>
  {loss}
  %s = "oneflow.reduce_sum"(%o) {{axis = []}} : (tensor<7xf64>) -> tensor<f64>
  %one = "oneflow.ones_like"(%o) : (tensor<7xf64>) -> tensor<7xf64>
  {grad}
  %dx = "oneflow.matmul"(%dz, %e) : (tensor<7x9xf64>, tensor<9x4xf64>) -> tensor<7x4xf64>
  %de = "oneflow.matmul"(%dz, %x) {{transpose_a = true}} : (tensor<7x9xf64>, tensor<7x4xf64>) -> tensor<9x4xf64>
  %df = "oneflow.embedding_grad"(%dx, %e, %i) : (tensor<7x4xf64>, tensor<9x4xf64>, tensor<7xi32>) -> tensor<9x4xf64>
  %d = "oneflow.broadcast_add"(%de, %df) : (tensor<9x4xf64>, tensor<9x4xf64>) -> tensor<9x4xf64>
  return %s, %d : tensor<f64>, tensor<9x4xf64>
}}
"""
ROWS, ROW = "tensor<7x9xf64>", "tensor<7xf64>"
LOSSES = {
    "sparse_softmax_cross_entropy": (
        f'%p, %o = "oneflow.sparse_softmax_cross_entropy"(%z, %l) : ({ROWS}, tensor<7xi32>) -> ({ROWS}, {ROW})',
        f'%dz = "oneflow.sparse_softmax_cross_entropy_grad"(%l, %one, %p) : (tensor<7xi32>, {ROW}, {ROWS}) -> {ROWS}',
    ),
    "log_softmax and nll": (
        f'%p = "oneflow.log_softmax"(%z) : ({ROWS}) -> {ROWS}\n'
        f'%o, %n = "oneflow.nll"(%p, %l) {{ignore_index = 2}} : ({ROWS}, tensor<7xi32>) -> ({ROW}, {ROW})',
        '%dp = "oneflow.nll_grad"(%one, %p, %l) {ignore_index = 2} :'
        f" ({ROW}, {ROWS}, tensor<7xi32>) -> {ROWS}\n"
        f'%dz = "oneflow.log_softmax_grad"(%p, %dp) : ({ROWS}, {ROWS}) -> {ROWS}',
    ),
}
MESHES = {(2,): "[#sbp.split<0>]", (3,): "[#sbp.split<0>]", (2, 2): "[#sbp.broadcast, #sbp.split<0>]"}


def program(loss, mesh):
    """A language model of one embedding, whose table is split by words, with its gradient."""
    forward, backward = LOSSES[loss]
    return LOSS.format(rows=MESHES[mesh], loss=forward, grad=backward)


@pytest.mark.parametrize("strategy", ["greedy", "auto"])
@pytest.mark.parametrize("mesh", MESHES, ids=str)
@pytest.mark.parametrize("loss", LOSSES)
def test_training_with_a_split_vocabulary(loss, mesh, strategy, context):
    """The loss and the gradient of the table, from shards of the table."""
    rng = np.random.default_rng(0)
    words, labels = (rng.integers(0, 9, 7).astype(np.int32) for _ in range(2))
    arrays: list[Any] = [words, rng.normal(size=(9, 4)), labels]
    with context:
        whole = read_module(program(loss, mesh), context)
        want = run(functions(whole)["main"], arrays)
        check_distributed(distribute(program(loss, mesh), context, mesh, f"strategy={strategy}"), arrays, want)


@pytest.mark.parametrize("loss", LOSSES)
def test_scores_are_never_moved(loss, context):
    """Only sums and maxima of rows are exchanged: no collective has the scores of a row."""
    with context:
        module = distribute(program(loss, (3,)), context, (3,), "strategy=greedy")
        run_passes(module, "oneflow-to-physical{rank=0}")
    collectives = [line for line in str(module).splitlines() if "ccl_" in line]
    assert any('reduce_type = "max"' in line for line in collectives)
    assert not any("tensor<7x9xf64>" in line or "tensor<7x3xf64>" in line for line in collectives)


def test_the_largest_of_shards_is_nan_where_one_is(context):
    """Partial maxima are combined as by `reduce_max`."""
    text = """
func.func @main(%x: tensor<3x5xf32> {oneflow.nd_sbp = [#sbp.split<1>]}) -> tensor<3xf32> {
  %0 = "oneflow.reduce_max"(%x) {axis = [1]} : (tensor<3x5xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
"""
    x = np.array([[1, 2, 3, 4, 5], [-np.inf] * 5, [1, np.nan, 0, 0, 9]], np.float32)
    with context:
        check_distributed(distribute(text, context, (2,)), [x], [np.array([5, -np.inf, np.nan], np.float32)])
