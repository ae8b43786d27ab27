"""Programs that mix MLIR operations and operators: values as NumPy's, or an error at the operation's location."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from scipy import special

from oneflow.dialect import ops as _every_operator  # noqa: F401
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.passes.base import PassError
from oneflow.runtime.executable import Options, SizeError, compile_module

X = np.array([0.25, 0.5, 0.75, 1.5], np.float32)
Y = np.array([2.0, -0.5, 0.625, 3.0], np.float32)
N = np.array([5, 2, -7, 9], np.int32)
M = np.array([3, 2, 4, 1], np.int32)
F, W, Q = "tensor<4xf32>", "tensor<4xi32>", "tensor<?xf32>"
SQUARE = '"oneflow.square"({0}) : ({1}) -> {1}'
INDEX = "\n".join(f"%c{n} = arith.constant {n} : index" for n in range(5)) + "\n%z = arith.constant 0.0 : f32"


def compiled(body: str, arguments: str, result: str, before: str = "") -> Any:
    """A program with this body, which returns %r."""
    text = f"{before}\nfunc.func @main({arguments}) -> {result} {{\n{INDEX}\n{body}\nreturn %r : {result}\n}}"
    return compile_module(read_module(text, create_context()), options=Options(cached=False, level=0))


#: Operations on tensors: the line that makes %r of %x, %y (f32) or %n, %m (i32), its type, the NumPy value.
ELEMENT_WISE: list[tuple[str, str, Any]] = [
    *((f"arith.{op} %x, %y : {F}", F, want) for op, want in {
        "addf": X + Y, "subf": X - Y, "mulf": X * Y, "divf": X / Y, "remf": np.fmod(X, Y),
        "maximumf": np.maximum(X, Y), "minimumf": np.minimum(X, Y), "maxnumf": np.maximum(X, Y)}.items()),
    *((f"arith.{op} %n, %m : {W}", W, want) for op, want in {
        "addi": N + M, "subi": N - M, "muli": N * M, "divsi": np.int32(N / M), "remsi": np.fmod(N, M),
        "floordivsi": N // M, "ceildivsi": -(-N // M), "andi": N & M, "ori": N | M, "xori": N ^ M, "shli": N << M,
        "shrsi": N >> M, "maxsi": np.maximum(N, M), "minsi": np.minimum(N, M)}.items()),
    *((f"math.{op} %x : {F}", F, want) for op, want in {
        "exp": np.exp(X), "exp2": np.exp2(X), "expm1": np.expm1(X), "log": np.log(X), "log2": np.log2(X),
        "log10": np.log10(X), "log1p": np.log1p(X), "sqrt": np.sqrt(X), "rsqrt": 1 / np.sqrt(X), "sin": np.sin(X),
        "cos": np.cos(X), "tan": np.tan(X), "tanh": np.tanh(X), "sinh": np.sinh(X), "cosh": np.cosh(X),
        "atan": np.arctan(X), "asinh": np.arcsinh(X), "erf": special.erf(X), "erfc": special.erfc(X),
        "ceil": np.ceil(X), "floor": np.floor(X), "roundeven": np.rint(X), "trunc": np.trunc(X), "cbrt": np.cbrt(X),
        "absf": np.abs(X)}.items()),
    (f"math.powf %x, %y : {F}", F, np.power(X, Y)),
    (f"math.atan2 %x, %y : {F}", F, np.arctan2(X, Y)),
    (f"math.copysign %x, %y : {F}", F, np.copysign(X, Y)),
    (f"math.fma %x, %y, %x : {F}", F, X * Y + X),
    (f"math.clampf %y to [%x, %x] : {F}", F, X),
    (f"math.fpowi %x, %m : {F}, {W}", F, (X**M).astype(np.float32)),
    (f"math.ctpop %m : {W}", W, np.array([2, 1, 1, 1], np.int32)),
    (f"arith.negf %x : {F}", F, -X),
    (f"arith.cmpf olt, %x, %y : {F}", "tensor<4xi1>", X < Y),
    (f"arith.cmpi slt, %n, %m : {W}", "tensor<4xi1>", N < M),
    (f"arith.extf %x : {F} to tensor<4xf64>", "tensor<4xf64>", X.astype(np.float64)),
    (f"arith.truncf %x : {F} to tensor<4xf16>", "tensor<4xf16>", X.astype(np.float16)),
    (f"arith.fptosi %y : {F} to {W}", W, Y.astype(np.int32)),
    (f"arith.sitofp %n : {W} to {F}", F, N.astype(np.float32)),
    (f"arith.bitcast %x : {F} to {W}", W, X.view(np.int32)),
]  # fmt: skip


@pytest.mark.parametrize("line, result, want", ELEMENT_WISE, ids=[line.split()[0] for line, *_ in ELEMENT_WISE])
def test_arith_and_math_on_tensors(line: str, result: str, want: Any) -> None:
    given = [X.copy(), Y.copy(), N.copy(), M.copy()]
    (got,) = compiled(f"%r = {line}", f"%x: {F}, %y: {F}, %n: {W}, %m: {W}", result)(*given)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
    for before, after in zip((X, Y, N, M), given, strict=True):
        np.testing.assert_array_equal(before, after)


def test_elementwise_operations_of_dynamic_size() -> None:
    body = f"""%0 = "oneflow.relu"(%x) : ({Q}) -> {Q}
      %1 = arith.mulf %0, %y : {Q}
      %2 = math.exp %1 : {Q}
      %r = "oneflow.softmax"(%2) : ({Q}) -> {Q}"""
    program = compiled(body, f"%x: {Q}, %y: {Q}", Q)
    for n in (4, 7):
        x, y = np.linspace(-1, 1, n, dtype=np.float32), np.linspace(1, 2, n, dtype=np.float32)
        want = special.softmax(np.exp(np.maximum(x, 0) * y))
        np.testing.assert_allclose(program(x, y)[0], want, rtol=1e-5)


def loop(carried: str, body: str, last: str = "%c3", kind: str = F) -> str:
    """A loop over %i = 0, 1, 2 that carries %a, starting from %x."""
    return f"""%r = scf.for %i = %c0 to {last} step %c1 iter_args(%a = %x) -> ({kind}) {{
      {body}
      scf.yield {carried} : {kind}
    }}"""


def powers(n: int) -> Any:
    return X ** (2**n)


#: Control flow: the program, its parameters, the type of its result, the arguments, the expected value.
CONTROL: dict[str, tuple[str, str, str, list[Any], Any]] = {
    "for": (loop("%0", f"%0 = {SQUARE.format('%a', F)}"), f"%x: {F}", F, [X], powers(3)),
    "for_never": (loop("%0", f"%0 = {SQUARE.format('%a', F)}", "%c0"), f"%x: {F}", F, [X], X),
    "for_unknown_size": (loop("%0", f"%0 = {SQUARE.format('%a', Q)}", kind=Q), f"%x: {Q}", Q, [X], powers(3)),
    "for_unranked": (
        loop("%1", f"""%0 = "oneflow.square"(%a) : ({F}) -> tensor<*xf32>
          %1 = tensor.cast %0 : tensor<*xf32> to {F}"""), f"%x: {F}", F, [X], powers(3)),
    "for_until": (
        "%p = tensor.extract %n[] : tensor<i64>\n%u = arith.index_cast %p : i64 to index\n"
        + loop("%0", f"%0 = {SQUARE.format('%a', F)}", "%u"),
        f"%x: {F}, %n: tensor<i64>", F, [X, np.int64(2)], powers(2)),
    "for_two": (
        f"""%r, %q = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %x, %b = %x) -> ({F}, {F}) {{
          %0 = "oneflow.broadcast_add"(%a, %b) : ({F}, {F}) -> {F}
          scf.yield %b, %0 : {F}, {F}
        }}""", f"%x: {F}", F, [X], 3 * X),
    "for_step": (
        loop("%1", f"""%v = tensor.extract %a[%i] : {F}
          %t = tensor.from_elements %v : tensor<f32>
          %1 = "oneflow.broadcast_add"(%a, %t) : ({F}, tensor<f32>) -> {F}"""),
        f"%x: {F}", F, [np.array([1, 2, 3, 4], np.float32)], np.array([12, 13, 14, 15], np.float32)),
    "for_nested": (
        loop("%0", f"""%0 = scf.for %j = %c0 to %c2 step %c1 iter_args(%b = %a) -> ({F}) {{
            %1 = {SQUARE.format('%b', F)}
            scf.yield %1 : {F}
          }}""", "%c2"), f"%x: {F}", F, [X], powers(4)),
    "for_product": (
        loop("%0", '%0 = "oneflow.matmul"(%a, %x) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>',
             kind="tensor<2x2xf32>"),
        "%x: tensor<2x2xf32>", "tensor<2x2xf32>", [X.reshape(2, 2)], np.linalg.matrix_power(X.reshape(2, 2), 4)),
    "for_number": (
        f"""%s = scf.for %i = %c0 to %c4 step %c1 iter_args(%a = %z) -> (f32) {{
          %e = tensor.extract %x[%i] : {F}
          %0 = arith.addf %a, %e : f32
          scf.yield %0 : f32
        }}
        %t = tensor.from_elements %s : tensor<f32>
        %r = "oneflow.broadcast_mul"(%x, %t) : ({F}, tensor<f32>) -> {F}""", f"%x: {F}", F, [X], X * X.sum()),
    "for_unsigned": (
        loop("%0", '%0 = "oneflow.broadcast_add"(%a, %a) : (tensor<2xui8>, tensor<2xui8>) -> tensor<2xui8>',
             kind="tensor<2xui8>"),
        "%x: tensor<2xui8>", "tensor<2xui8>", [np.array([3, 77], np.uint8)], np.array([24, 616 % 256], np.uint8)),
    "while": (
        f"""%r = scf.while (%a = %x) : ({F}) -> {F} {{
          %s = "oneflow.reduce_sum"(%a) {{axis = [0], keepdims = false}} : ({F}) -> tensor<f32>
          %v = tensor.extract %s[] : tensor<f32>
          %l = arith.constant 100.0 : f32
          %c = arith.cmpf olt, %v, %l : f32
          scf.condition(%c) %a : {F}
        }} do {{
        ^bb0(%b: {F}):
          %0 = "oneflow.broadcast_add"(%b, %b) : ({F}, {F}) -> {F}
          scf.yield %0 : {F}
        }}""", f"%x: {F}", F, [X], 64 * X),
    "if_number": (
        """%c = tensor.extract %p[] : tensor<i1>
        %s = scf.if %c -> (f32) {
          %e = tensor.extract %x[%c1] : tensor<4xf32>
          scf.yield %e : f32
        } else {
          %f = math.exp %z : f32
          scf.yield %f : f32
        }
        %r = tensor.from_elements %s, %z : tensor<2xf32>""",
        f"%x: {F}, %p: tensor<i1>", "tensor<2xf32>", [X, np.bool_(True)], np.array([0.5, 0], np.float32)),
    "forall": (
        f"""%r = scf.forall (%i) in (4) shared_outs(%o = %x) -> ({F}) {{
          %s = tensor.extract_slice %x[%i] [1] [1] : {F} to tensor<1xf32>
          %0 = {SQUARE.format('%s', 'tensor<1xf32>')}
          scf.forall.in_parallel {{
            tensor.parallel_insert_slice %0 into %o[%i] [1] [1] : tensor<1xf32> into {F}
          }}
        }}""", f"%x: {F}", F, [X], powers(1)),
    "sizes": (
        f"""%n = tensor.dim %x, %c0 : {Q}
        %h = affine.apply affine_map<(d0) -> (d0 floordiv 2)>(%n)
        %s = tensor.extract_slice %x[1] [%h] [1] : {Q} to {Q}
        %r = {SQUARE.format('%s', Q)}""", f"%x: {Q}", Q, [X], X[1:3] ** 2),
    "size_of_a_computed_dimension": (
        """%p = tensor.extract %k[] : tensor<i64>
        %j = arith.index_cast %p : i64 to index
        %n = tensor.dim %x, %j : tensor<?x?xf32>
        %w = arith.index_cast %n : index to i64
        %r = tensor.from_elements %w, %p : tensor<2xi64>""",
        "%x: tensor<?x?xf32>, %k: tensor<i64>", "tensor<2xi64>", [np.ones((2, 3), np.float32), np.int64(1)],
        np.array([3, 1], np.int64)),
    "chosen_by_a_number": (
        f"""%c = tensor.extract %p[] : tensor<i1>
        %0 = {SQUARE.format('%x', F)}
        %r = arith.select %c, %x, %0 : {F}""", f"%x: {F}, %p: tensor<i1>", F, [X, np.bool_(False)], powers(1)),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTROL)
def test_control_flow_and_scalars(name: str) -> None:
    body, arguments, result, given, want = CONTROL[name]
    (got,) = compiled(body, arguments, result)(*given)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_loop_carried_tensors_keep_their_sizes() -> None:
    """A carried tensor of another size is an error before memory is written; the program can be called again."""
    body = loop("%0", f'%0 = "oneflow.cat"(%a, %y) {{axis = 0 : si64}} : ({Q}, {Q}) -> {Q}', kind=Q)
    program = compiled(body, f"%x: {Q}, %y: {Q}", Q)
    for _ in range(2):
        with pytest.raises(SizeError, match=r"^scf\.for: dimension 0 of a loop-carried tensor.*expected 4, got 6$"):
            program(X, Y[:2])
        np.testing.assert_array_equal(program(X, Y[:0])[0], X)


def test_size_mismatch_in_a_branch_ends_the_run() -> None:
    body = f"""%c = tensor.extract %p[] : tensor<i1>
      %r = scf.if %c -> ({F}) {{
        %0 = "oneflow.broadcast_add"(%x, %y) : ({Q}, {Q}) -> {Q}
        %1 = tensor.cast %0 : {Q} to {F}
        scf.yield %1 : {F}
      }} else {{
        %2 = tensor.cast %x : {Q} to {F}
        scf.yield %2 : {F}
      }}"""
    program = compiled(body, f"%x: {Q}, %y: {Q}, %p: tensor<i1>", F)
    np.testing.assert_array_equal(program(X, Y, np.True_)[0], X + Y)
    np.testing.assert_array_equal(program(X, Y[:2], np.False_)[0], X)
    with pytest.raises(SizeError, match=r"^oneflow\.broadcast_add: "):
        program(X, Y[:2], np.True_)


def test_failed_assertion_is_a_runtime_error() -> None:
    body = f'%c = tensor.extract %p[] : tensor<i1>\ncf.assert %c, "x is bad"\n%r = {SQUARE.format("%x", F)}'
    program = compiled(body, f"%x: {F}, %p: tensor<i1>", F)
    np.testing.assert_array_equal(program(X, np.True_)[0], X * X)
    with pytest.raises(SizeError, match=r"^cf\.assert: x is bad \(-:10:1\): expected 1, got 0$"):
        program(X, np.False_)


#: Unsupported operations: the line that makes %r of %x, text before the function, part of the error message.
REFUSED: list[tuple[str, str, str]] = [
    (f"%r = tosa.add %x, %x : ({F}, {F}) -> {F}", "", "got tosa.add"),
    (f"%r = ub.poison : {F}", "", "got ub.poison"),
    (f"%e = tensor.empty() : {F}\n%r = linalg.softmax dimension(0) ins(%x : {F}) outs(%e : {F}) -> {F}", "",
     "got linalg.softmax (linalg.softmax has no loops)"),
    (f"%m = memref.alloc() : memref<4xf32>\n%r = bufferization.to_tensor %m : memref<4xf32> to {F}", "",
     "memref.alloc: expected ranked tensors and scalars between operations, got memref<4xf32>"),
    (f"%v = vector.transfer_read %x[%c0], %z : {F}, vector<4xf32>\n"
     f"%w = arith.addf %v, %v : vector<4xf32>\n%r = vector.transfer_write %w, %x[%c0] : vector<4xf32>, {F}", "",
     "got vector<4xf32>"),
    (f"%i = arith.fptosi %x : {F} to {W}\n%p = math.ipowi %i, %i : {W}\n%r = arith.sitofp %p : {W} to {F}", "",
     "math.ipowi: expected an operation with a lowering; write math.fpowi or oneflow.pow"),
    (f"%r = call @g(%x) : ({F}) -> {F}", f"func.func private @g({F}) -> {F}",
     "expected a function with a body to call, but @g is only declared"),
    (f"%e = tensor.extract %x[%c0] : {F}\n%b = arith.cmpf olt, %e, %z : f32\n"
     f"cf.cond_br %b, ^a, ^c\n^a:\nreturn %x : {F}\n^c:\n%r = arith.addf %x, %x : {F}", "",
     "expected a function of one block, but @main has branches between blocks; run lift-cf-to-scf first"),
]  # fmt: skip


@pytest.mark.parametrize("line, before, text", REFUSED)
def test_unsupported_operations_are_refused_at_their_location(line: str, before: str, text: str) -> None:
    with pytest.raises(PassError, match=rf"^-:\d+:\d+: error: .*{re.escape(text)}"):
        compiled(line, f"%x: {F}", F, before)


def test_functions_as_values_are_refused() -> None:
    body = f"%f = func.constant @g : ({F}) -> {F}\n%r = call_indirect %f(%x) : ({F}) -> {F}"
    before = f"func.func private @g(%a: {F}) -> {F} {{\nreturn %a : {F}\n}}"
    with pytest.raises(PassError, match="expected calls of functions by name") as caught:
        compiled(body, f"%x: {F}", F, before)
    assert caught.value.location is not None


def test_results_of_data_dependent_size_are_refused() -> None:
    body = f"""%c = tensor.extract %p[] : tensor<i1>
      %r = scf.if %c -> ({Q}) {{
        %0 = {SQUARE.format("%x", Q)}
        scf.yield %0 : {Q}
      }} else {{
        scf.yield %x : {Q}
      }}"""
    with pytest.raises(PassError, match=r"scf\.if: expected results whose sizes are known before the run, got"):
        compiled(body, f"%x: {Q}, %p: tensor<i1>", Q)
