"""Bodies of loops and branches on several ranks: layouts are a fixed point, and values are as on one rank."""

import numpy as np
import pytest
from sbp_programs import annotate, check_distributed, distribute, run_passes

from oneflow.dialect.nd_sbp import parse_sbp
from oneflow.passes.inline import functions_of
from oneflow.passes.sbp import annotations as notes
from oneflow.passes.walk import gather

STRATEGIES = pytest.mark.parametrize("strategy", ["greedy", "auto"])


def nd(text):
    return annotate(tuple(map(parse_sbp, text.split())))


def cell(x="B", w="B", h="B"):
    """A recurrent layer of 5 steps: a batch of 6, and states of 4 numbers."""
    return f"""
func.func private @step(%h: tensor<6x4xf64>, %x: tensor<6x4xf64>, %w: tensor<4x4xf64>)
    -> (tensor<6x4xf64>, tensor<6x4xf64>) {{
  %0 = "oneflow.matmul"(%h, %w) : (tensor<6x4xf64>, tensor<4x4xf64>) -> tensor<6x4xf64>
  %1 = "oneflow.add_n"(%0, %x) : (tensor<6x4xf64>, tensor<6x4xf64>) -> tensor<6x4xf64>
  %2 = "oneflow.tanh"(%1) : (tensor<6x4xf64>) -> tensor<6x4xf64>
  return %2, %0 : tensor<6x4xf64>, tensor<6x4xf64>
}}
func.func @main(%h: tensor<6x4xf64> {nd(h)}, %x: tensor<5x6x4xf64> {nd(x)}, %w: tensor<4x4xf64> {nd(w)})
    -> (tensor<6x4xf64>, tensor<5x6x4xf64>) {{
  %0:3 = "oneflow.scan"(%h, %x, %w) {{body = @step, states = 1 : i32, sequences = 1 : i32}}
    : (tensor<6x4xf64>, tensor<5x6x4xf64>, tensor<4x4xf64>) -> (tensor<6x4xf64>, tensor<5x6x4xf64>, tensor<5x6x4xf64>)
  return %0#0, %0#1 : tensor<6x4xf64>, tensor<5x6x4xf64>
}}
"""


def by_numpy(h, xs, w):
    ys = []
    for x in xs:
        ys.append(h @ w)
        h = np.tanh(ys[-1] + x)
    return h, np.stack(ys)


def arrays():
    rng = np.random.default_rng(0)
    return [rng.normal(size=s) for s in ((6, 4), (5, 6, 4), (4, 4))]


def signature(module, name):
    """The layouts of the only operator of this name, as text."""
    (op,) = gather(module.operation, lambda o: o.name == name)
    sides = (notes.read_operation(op, side) for side in (notes.IN, notes.OUT))
    return " -> ".join(", ".join(" ".join(map(str, layout)) for layout in side or ()) for side in sides)


def casts(module, body):
    """The casts in the copies of a body and in the rest of the program."""
    functions = functions_of(module).items()
    names = {name: len(gather(op, lambda o: o.name == notes.PARALLEL_CAST)) for name, op in functions}
    inside = sum(count for name, count in names.items() if name.startswith(body))
    return inside, sum(names.values()) - inside


@pytest.mark.parametrize(
    "mesh, x, w, h, wanted, inside",
    [
        # The batch stays split, and nothing moves in a step.
        ((2,), "S(1)", "B", "B", "S(0), S(1), B -> S(0), S(1), S(1)", 0),
        ((4,), "S(1)", "B", "S(1)", "S(0), S(1), B -> S(0), S(1), S(1)", 0),
        # Steps take whole elements and whole weights: both are gathered before the loop.
        ((2,), "S(0)", "B", "B", "B, B, B -> B, B, B", 0),
        ((2,), "S(1)", "S(0)", "B", "S(0), S(1), B -> S(0), S(1), S(1)", 0),
        # Partial sums of the states before become whole.
        ((2,), "S(1)", "B", "P", "S(0), S(1), B -> S(0), S(1), S(1)", 0),
        ((2, 2), "S(1) B", "B B", "B B", "S(0) B, S(1) B, B B -> S(0) B, S(1) B, S(1) B", 0),
    ],
)
def test_states_are_passed_on_as_a_step_gives_them(mesh, x, w, h, wanted, inside, context):
    with context:
        module = distribute(cell(x, w, h), context, mesh)
        assert signature(module, "oneflow.scan") == wanted
        assert casts(module, "step")[0] == inside
        check_distributed(module, arrays(), by_numpy(*arrays()))


@STRATEGIES
@pytest.mark.parametrize("w", ["S(1)", "S(0)"])
def test_split_weights(strategy, w, context):
    with context:
        module = distribute(cell("B", w), context, (2,), f"strategy={strategy}")
        check_distributed(module, arrays(), by_numpy(*arrays()))
        run_passes(module, "oneflow-to-physical{rank=1 check=true}")


SUM = """
func.func private @step(%sum: tensor<4x3xf64>, %x: tensor<6x4xf64>, %y: tensor<6x3xf64>) -> tensor<4x3xf64> {
  %0 = "oneflow.matmul"(%x, %y) {transpose_a = true} : (tensor<6x4xf64>, tensor<6x3xf64>) -> tensor<4x3xf64>
  %1 = "oneflow.broadcast_add"(%sum, %0) : (tensor<4x3xf64>, tensor<4x3xf64>) -> tensor<4x3xf64>
  return %1 : tensor<4x3xf64>
}
func.func @main(%x: tensor<5x6x4xf64> {oneflow.nd_sbp = [#sbp.split<1>]}, %y: tensor<5x6x3xf64>
    {oneflow.nd_sbp = [#sbp.split<1>]}) -> tensor<4x3xf64> {
  %zero = arith.constant dense<0.0> : tensor<4x3xf64>
  %0:2 = "oneflow.scan"(%zero, %x, %y) {body = @step, states = 1 : i32, sequences = 2 : i32}
    : (tensor<4x3xf64>, tensor<5x6x4xf64>, tensor<5x6x3xf64>) -> (tensor<4x3xf64>, tensor<5x4x3xf64>)
  return %0#0 : tensor<4x3xf64>
}
"""


def test_sums_of_steps_are_reduced_once(context):
    """Ranks add up local parts, as for the gradients of weights, and the last sum is reduced."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(5, 6, 4)), rng.normal(size=(5, 6, 3))
    with context:
        module = distribute(SUM, context, (2,))
        assert signature(module, "oneflow.scan").startswith("P, S(1), S(1) -> P")
        assert casts(module, "step")[0] == 0
        check_distributed(module, [x, y], [np.einsum("tbi,tbj->ij", x, y)])


TURNS = """
func.func private @turn(%a: tensor<4x4xf64>) -> tensor<4x4xf64> {
  %0 = "oneflow.transpose"(%a) {perm = [1 : si32, 0 : si32]} : (tensor<4x4xf64>) -> tensor<4x4xf64>
  %1 = "oneflow.exp"(%0) : (tensor<4x4xf64>) -> tensor<4x4xf64>
  return %1 : tensor<4x4xf64>
}
func.func @main(%a: tensor<4x4xf64> {oneflow.nd_sbp = [#sbp.split<0>]}) -> tensor<4x4xf64> {
  %0:2 = "oneflow.scan"(%a) {body = @turn, states = 1 : i32, sequences = 0 : i32, length = 2 : i64}
    : (tensor<4x4xf64>) -> (tensor<4x4xf64>, tensor<2x4x4xf64>)
  return %0#0 : tensor<4x4xf64>
}
"""


def test_states_without_a_fixed_point_are_whole(context):
    a = np.random.default_rng(0).normal(size=(4, 4))
    with context:
        module = distribute(TURNS, context, (2,))
        assert signature(module, "oneflow.scan") == "B -> B, B"
        check_distributed(module, [a], [np.exp(np.exp(a.T).T)])


LOOP = """
func.func private @below(%n: tensor<i64>, %x: tensor<6xf64>, %most: tensor<i64>) -> tensor<i1> {
  %0 = "oneflow.reduce_max"(%x) {axis = [0 : si32], keepdims = false} : (tensor<6xf64>) -> tensor<f64>
  %1 = "oneflow.scalar_logical_less"(%0) {has_float_operand = true, float_operand = 9.0 : f64} : (tensor<f64>) -> tensor<i1>
  return %1 : tensor<i1>
}
func.func private @next(%n: tensor<i64>, %x: tensor<6xf64>, %most: tensor<i64>) -> (tensor<i64>, tensor<6xf64>) {
  %0 = "oneflow.scalar_add"(%n) {has_int_operand = true, int_operand = 1 : i64} : (tensor<i64>) -> tensor<i64>
  %1 = "oneflow.broadcast_add"(%x, %x) : (tensor<6xf64>, tensor<6xf64>) -> tensor<6xf64>
  return %0, %1 : tensor<i64>, tensor<6xf64>
}
func.func @main(%x: tensor<6xf64> {oneflow.nd_sbp = [#sbp.split<0>]}) -> (tensor<i64>, tensor<6xf64>) {
  %n = arith.constant dense<0> : tensor<i64>
  %0:2 = "oneflow.while_loop"(%n, %x, %n) {condition = @below, body = @next, states = 2 : i32}
    : (tensor<i64>, tensor<6xf64>, tensor<i64>) -> (tensor<i64>, tensor<6xf64>)
  return %0#0, %0#1 : tensor<i64>, tensor<6xf64>
}
"""  # noqa: E501


@STRATEGIES
def test_ranks_agree_on_the_number_of_steps(strategy, context):
    """The condition reads a split state: its collective is in the condition."""
    x = np.arange(1.0, 7.0)
    with context:
        module = distribute(LOOP, context, (2,), f"strategy={strategy}")
        assert signature(module, "oneflow.while_loop") == "B, S(0), B -> B, S(0)"
        check_distributed(module, [x], [np.array(1), x * 2])


BRANCH = """
func.func private @inner(%s: tensor<6x2xf64>, %x: tensor<6x2xf64>) -> tensor<6x2xf64> {
  %0 = "oneflow.broadcast_add"(%s, %x) : (tensor<6x2xf64>, tensor<6x2xf64>) -> tensor<6x2xf64>
  return %0 : tensor<6x2xf64>
}
func.func private @scanned(%x: tensor<6x2xf64>) -> (tensor<6x2xf64>, tensor<6xf64>) {
  %0:2 = "oneflow.scan"(%x, %x) {body = @inner, states = 1 : i32, sequences = 0 : i32, length = 3 : i64}
    : (tensor<6x2xf64>, tensor<6x2xf64>) -> (tensor<6x2xf64>, tensor<3x6x2xf64>)
  %1 = "oneflow.reduce_sum"(%0#0) {axis = [1 : si32], keepdims = false} : (tensor<6x2xf64>) -> tensor<6xf64>
  return %0#0, %1 : tensor<6x2xf64>, tensor<6xf64>
}
func.func private @zeros(%x: tensor<6x2xf64>) -> (tensor<6x2xf64>, tensor<6xf64>) {
  %0 = arith.constant dense<1.0> : tensor<6xf64>
  return %x, %0 : tensor<6x2xf64>, tensor<6xf64>
}
func.func @main(%p: tensor<i1>, %x: tensor<6x2xf64> {oneflow.nd_sbp = [#sbp.split<0>]})
    -> (tensor<6x2xf64>, tensor<6xf64>) {
  %0:2 = "oneflow.cond"(%p, %x) {true_branch = @scanned, false_branch = @zeros}
    : (tensor<i1>, tensor<6x2xf64>) -> (tensor<6x2xf64>, tensor<6xf64>)
  return %0#0, %0#1 : tensor<6x2xf64>, tensor<6xf64>
}
"""


@STRATEGIES
def test_branches_give_results_in_one_layout(strategy, context):
    """A loop in a branch; and the other branch gives a whole tensor, which is cut."""
    x = np.random.default_rng(0).normal(size=(6, 2))
    with context:
        module = distribute(BRANCH, context, (2,), f"strategy={strategy}")
        assert signature(module, "oneflow.cond") == "B, S(0) -> S(0), S(0)"
        check_distributed(module, [np.array(True), x], [x * 4, (x * 4).sum(1)])
        check_distributed(module, [np.array(False), x], [x, np.ones(6)])
        run_passes(module, "oneflow-to-physical{rank=0 check=true}")


def test_inference_of_an_annotated_program_keeps_it(context):
    with context:
        module = distribute(cell("S(1)"), context, (2,))
        before = signature(module, "oneflow.scan")
        run_passes(module, "oneflow-infer-sbp", "oneflow-insert-boxing")
        assert signature(module, "oneflow.scan") == before
        check_distributed(module, arrays(), by_numpy(*arrays()))
