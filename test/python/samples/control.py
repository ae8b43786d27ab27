"""Samples of structured control flow: states of several types, constants, both directions, returned operands."""

from oneflow.dialect.body import write_body
from oneflow.dialect.dtypes import bool_, float32, float64, int64
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.testing.sample import Bad, Sample, t, v


def _body(write, *types):
    return write_body(write, [TensorDesc(shape, dtype) for shape, dtype in types])


def _cell(ops, h, count, x, w):
    y = ops.matmul(h, w)
    return ops.tanh(y + x), count + 1, y, x


def _below(ops, count, x, limit):
    return [ops.broadcast_less(count, limit)]


def _doubled(ops, count, x, limit):
    return count + 1, x * 2.0


def _cell_of(dtype):
    return _body(_cell, ((2, 3), dtype), ((), int64), ((2, 3), dtype), ((3, 3), dtype))


CELL = [[t(2, 3), v(0, int64), t(4, 2, 3), t(3, 3, low=-0.5, high=0.5)]]
STATES = {"states": 2, "sequences": 1}
COUNTED = [((), int64), ((3,), float64), ((), int64)]
BRANCHED = [((3,), float64), ((3,), float64)]
LOOP = {"condition": _body(_below, *COUNTED), "body": _body(_doubled, *COUNTED), "states": 2}
BRANCHES = {
    "true_branch": _body(lambda ops, x, y: [ops.sin(x) * y, y], *BRANCHED),
    "false_branch": _body(lambda ops, x, y: [x, y * 3.0], *BRANCHED),
}
SAMPLES = [
    Sample("scan", CELL, {"body": _cell_of(float64), **STATES}, dtypes=(float64,)),
    Sample("scan", CELL, {"body": _cell_of(float64), **STATES, "reverse": True}, dtypes=(float64,)),
    Sample(
        "scan", [[t(2)]], {"body": _body(lambda ops, x: [ops.sin(x)], ((2,), float64)), "states": 1, "sequences": 0,
        "length": 3}, dtypes=(float64,),
    ),
    Sample("while_loop", [[v(0, int64), t(3), v(5, int64)]], LOOP, dtypes=(float64,), gradient=False, why="none"),
    Sample("cond", [v(True, bool_), [t(3), t(3)]], BRANCHES, dtypes=(float64,)),
    Sample("cond", [v(False, bool_), [t(3), t(3)]], BRANCHES, dtypes=(float64,)),
]  # fmt: skip
BAD = [
    Bad("scan", CELL, {"body": _cell_of(float64), **STATES}, match="expected argument 0 of body"),
    Bad("scan", [[t(2, 3)]], {"body": _cell_of(float32), **STATES}, match="expected at least 2 states"),
    Bad("while_loop", [[v(0, int64), t(3, dtype=float64), v(5, int64)]], {**LOOP, "condition": LOOP["body"]},
        match="expected the condition to return one tensor<i1>"),
    Bad("cond", [v(1, int64), [t(3), t(3)]], BRANCHES, match="expected a predicate of type tensor<i1>"),
    Bad("cond", [v(True, bool_), [t(2), t(3)]], BRANCHES, match="expected argument 0 of true_branch", dtype=float64),
]  # fmt: skip
