"""Arguments given up for results (`oneflow.donated`): updated in place where that is right, values always right."""

import numpy as np
import pytest

from oneflow.dialect import ops  # noqa: F401
from oneflow.dialect._mlir import ir
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.runtime.executable import Options, OutOfBoundsError, compile_module

RNG = np.random.default_rng(0)
SQUARE = "tensor<40x40xf32>"


def build(text):
    context = create_context()
    with context, ir.Location.unknown():
        return compile_module(read_module(text, context), "main", Options(cached=False))


def donating(body, kind=SQUARE, others="", results=1, given="%r"):
    """A function whose argument x is given up for its first result."""
    kinds = ", ".join([kind] * results)
    return build(f"""
    func.func @main(%x: {kind} {{oneflow.donated = 0 : i64, oneflow.name = "x"}}{others}) -> ({kinds}) {{
      {body}
      return {given} : {kinds}
    }}""")


def call(name, result, operands, kinds=None, attrs="", gives=SQUARE):
    kinds = kinds or ", ".join([SQUARE] * (operands.count("%")))
    return f'{result} = "oneflow.{name}"({operands}) {attrs}: ({kinds}) -> {gives}\n'


def square():
    return RNG.standard_normal((40, 40)).astype(np.float32)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


IN_PLACE = {
    "pointwise": (call("square", "%r", "%x"), lambda x: x * x),
    "row": (call("softmax", "%r", "%x"), softmax),
    "column": (
        call("reduce_sum", "%s", "%x", attrs="{axis = array<i32: 0>, keepdims = true} ", gives="tensor<1x40xf32>")
        + call("broadcast_div", "%r", "%x, %s", kinds=f"{SQUARE}, tensor<1x40xf32>"),
        lambda x: x / x.sum(0, keepdims=True, dtype=np.float64),
    ),
    "after a product": (
        call("matmul", "%p", "%x, %x") + call("broadcast_sub", "%r", "%x, %p"), lambda x: x - x @ x,
    ),
    "chain": (
        call("matmul", "%p", "%x, %x") + call("tanh", "%t", "%p") + call("matmul", "%r", "%t, %p"),
        lambda x: np.tanh(x @ x) @ (x @ x),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_PLACE)
def test_results_are_right_in_donated_and_in_new_memory(name):
    body, reference = IN_PLACE[name]
    executable, x = donating(body), square()
    before = x.copy()
    (got,) = executable(x)
    np.testing.assert_allclose(got, reference(before.astype(np.float64)), rtol=2e-4, atol=2e-4)
    assert got is x or np.array_equal(x, before)


@pytest.mark.parametrize("name", ["pointwise", "row", "chain"])
def test_the_result_is_the_argument(name):
    executable, x = donating(IN_PLACE[name][0]), square()
    address = x.ctypes.data
    (got,) = executable(x)
    assert got is x and got.ctypes.data == address
    assert executable.memory.in_place == x.nbytes and executable.memory.results == 0


def test_an_update_in_place_takes_no_workspace():
    executable = donating(IN_PLACE["pointwise"][0])
    assert executable.peak_bytes == 0
    assert (
        str(executable.memory) == "arguments 6.25 KiB, results 0 bytes and 6.25 KiB in arguments, workspace 0 bytes"
    )


STEP = """
func.func @main(%w: tensor<32x48xf32> {oneflow.donated = 0 : i64}, %x: tensor<16x32xf32>, %g: tensor<16x48xf32>)
    -> (tensor<32x48xf32>, tensor<16x32xf32>) {
  %d = "oneflow.matmul"(%x, %g) {transpose_a = true} : (tensor<16x32xf32>, tensor<16x48xf32>) -> tensor<32x48xf32>
  %u = "oneflow.broadcast_sub"(%w, %d) : (tensor<32x48xf32>, tensor<32x48xf32>) -> tensor<32x48xf32>
  %b = "oneflow.matmul"(%g, %w) {transpose_b = true} : (tensor<16x48xf32>, tensor<32x48xf32>) -> tensor<16x32xf32>
  return %u, %b : tensor<32x48xf32>, tensor<16x32xf32>
}"""


def test_users_of_the_old_value_run_before_the_update():
    w, x, g = (RNG.standard_normal(s).astype(np.float32) for s in ((32, 48), (16, 32), (16, 48)))
    wanted = w - x.T @ g, g @ w.T
    new, back = build(STEP)(w, x, g)
    assert new is w
    np.testing.assert_allclose(new, wanted[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(back, wanted[1], rtol=1e-4, atol=1e-4)


KEPT = {
    "read later": (
        call("square", "%r", "%x") + call("matmul", "%q", "%r, %x"), "%r, %q", lambda x: (x * x, (x * x) @ x),
    ),
    "returned itself": (call("square", "%r", "%x"), "%r, %x", lambda x: (x * x, x)),
    "turned": (
        call("transpose", "%t", "%x", attrs="{perm = array<i32: 1, 0>} ") + call("broadcast_sub", "%r", "%x, %t"),
        "%r", lambda x: (x - x.T,),
    ),
    "a product of it": (call("matmul", "%r", "%x, %x"), "%r", lambda x: (x @ x,)),
    "summed elsewhere": (
        call("cumsum", "%c", "%x", attrs="{dim = 0 : si64} ")
        + call("flip", "%r", "%c", attrs="{dims = array<i32: 0>} "),
        "%r", lambda x: (x.cumsum(0)[::-1],),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_an_argument_that_is_read_later_is_not_overwritten(name):
    body, given, reference = KEPT[name]
    executable, x = donating(body, results=given.count("%"), given=given), square()
    before = x.copy()
    got = executable(x)
    for one, wanted in zip(got, reference(before), strict=True):
        np.testing.assert_allclose(one, wanted, rtol=2e-4, atol=2e-4)
    assert np.array_equal(x, before) or got[0] is x


TWO = """
func.func @main(
    %a: tensor<64xf32> {{oneflow.donated = {0} : i64}}, %b: tensor<64xf32> {{oneflow.donated = {1} : i64}})
    -> (tensor<64xf32>, tensor<64xf32>) {{
  %0 = "oneflow.broadcast_add"(%a, %b) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %1 = "oneflow.broadcast_mul"(%a, %b) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %0, %1 : tensor<64xf32>, tensor<64xf32>
}}"""


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_updates_that_read_each_other(order):
    a, b = RNG.standard_normal((2, 64)).astype(np.float32)
    wanted = a + b, a * b
    for got, value in zip(build(TWO.format(*order))(a, b), wanted, strict=True):
        np.testing.assert_array_equal(got, value)


def test_exchanged_arguments_are_results_of_their_own():
    text = TWO.format(0, 1).replace("return %0, %1", "return %b, %a")
    a, b = np.zeros(64, np.float32), np.ones(64, np.float32)
    first, second = build(text)(a, b)
    assert first.sum() == 64 and second.sum() == 0 and a.sum() == 0


@pytest.fixture(scope="module")
def two():
    return build(TWO.format(0, 1))


def _overlapping():
    whole = np.arange(96, dtype=np.float32)
    return whole[32:], whole[:64]


def _same():
    one = np.arange(64, dtype=np.float32)
    return one, one


@pytest.mark.parametrize("make", [_overlapping, _same])
def test_arguments_that_share_memory(two, make):
    a, b = make()
    wanted = a + b, a * b
    for _ in range(2):
        kept = a.copy(), b.copy()
        for got, value in zip(two(a, b), wanted, strict=True):
            np.testing.assert_array_equal(got, value)
        a[:], b[:] = kept


def test_overlaps_are_checked_again_after_disjoint_arguments(two):
    disjoint = np.ones(64, np.float32), np.ones(64, np.float32)
    two(*disjoint)
    two(*disjoint)
    first, second = two(*_same())
    np.testing.assert_array_equal(first, 2 * np.arange(64))
    np.testing.assert_array_equal(second, np.arange(64, dtype=np.float32) ** 2)


def test_read_only_and_strided_arguments_are_copied():
    executable = donating(IN_PLACE["pointwise"][0])
    fixed, wide = square(), np.ones((40, 80), np.float32)
    fixed.flags.writeable = False
    before = fixed.copy()
    (got,) = executable(fixed)
    np.testing.assert_array_equal(got, before * before)
    np.testing.assert_array_equal(fixed, before)
    (got,) = executable(3 * wide[:, ::2])
    np.testing.assert_array_equal(got, np.full((40, 40), 9, np.float32))


def test_a_run_that_fails_before_the_update_changes_nothing():
    body = (
        call("gather", "%t", "%x, %i", f"{SQUARE}, tensor<40xi64>", "{axis = 0 : si64} ")
        + call("matmul", "%p", "%t, %t")
        + call("broadcast_sub", "%r", "%x, %p")
    )
    executable, x = donating(body, others=", %i: tensor<40xi64>"), square()
    before = x.copy()
    with pytest.raises(OutOfBoundsError, match=r"expected an index in \[0, 40\), got 77$"):
        executable(x, np.full(40, 77))
    assert executable.memory.in_place == x.nbytes
    np.testing.assert_array_equal(x, before)


def test_a_run_that_fails_after_the_update_says_so():
    index = "tensor<40x40xi64>"
    body = (
        call("softmax", "%s", "%x")
        + call("matmul", "%r", "%s, %x0")
        + call("matmul", "%t", "%r, %x1")
        + call("cast", "%i", "%t", attrs="{dtype = i64} ", gives=index)
        + call("dim_gather", "%q", "%x0, %i", f"{SQUARE}, {index}", "{dim = 0 : si32} ")
    )
    executable = donating(body, others=f", %x0: {SQUARE}, %x1: {SQUARE}", results=2, given="%r, %q")
    x = square()
    with pytest.raises(OutOfBoundsError, match=r"got (80|81); updated in place before: 'x'$"):
        executable(x, np.full((40, 40), 81, np.float32), np.eye(40, dtype=np.float32))
    np.testing.assert_allclose(x, np.full((40, 40), 81), rtol=1e-5)


@pytest.mark.parametrize("shape", [(6, 16), (64, 16), (5, 3)], ids=str)
def test_an_update_before_a_loop_that_reads_the_old_value(shape):
    """A number of each column is updated by the column's sum, and every element of the column needs the old one."""
    whole, column = f"tensor<{shape[0]}x{shape[1]}xf32>", f"tensor<{shape[1]}xf32>"
    run = build(f"""
    func.func @main(%g: {column} {{oneflow.donated = 1 : i64, oneflow.name = "g"}},
                    %x: {whole}) -> ({whole}, {column}) {{
      %s = "oneflow.reduce_sum"(%x) {{axis = array<i32: 0>, keepdims = false}} : ({whole}) -> {column}
      %a = "oneflow.broadcast_sub"(%x, %s) : ({whole}, {column}) -> {whole}
      %y = "oneflow.broadcast_mul"(%a, %g) : ({whole}, {column}) -> {whole}
      %r = "oneflow.broadcast_sub"(%g, %s) : ({column}, {column}) -> {column}
      return %y, %r : {whole}, {column}
    }}""")
    x, g = RNG.standard_normal(shape).astype(np.float32), RNG.standard_normal(shape[1]).astype(np.float32)
    old, total = g.copy(), x.sum(0)
    whole, updated = run(g, x)
    np.testing.assert_allclose(whole, (x - total) * old, 1e-4, 1e-4)
    np.testing.assert_allclose(updated, old - total, 1e-4, 1e-4)
