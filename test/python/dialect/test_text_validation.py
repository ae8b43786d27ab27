"""Text that would end the process in MLIR's parser is an error with a location."""

from __future__ import annotations

import re

import pytest

from oneflow.dialect import ops, reader  # noqa: F401
from oneflow.dialect.forward_references import find_forward_reference
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import ProgramError, read_module
from oneflow.dialect.text_validation import MAX_NESTING

MANY = 2**62
GENERIC = """#map = affine_map<(m) -> (m)>
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {{
  %p = linalg.generic {{indexing_maps = [#map, #map], iterator_types = {}}}
    ins(%a : tensor<4xf32>) outs(%a : tensor<4xf32>) {{
    ^bb0(%x: f32, %y: f32):
      linalg.yield %x : f32
  }} -> tensor<4xf32>
  return %p : tensor<4xf32>
}}"""
#: The operation in MLIR's generic form.
GENERIC_FORM = """#map = affine_map<(m) -> (m)>
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %p = "linalg.generic"(%a, %a) <{indexing_maps = [#map, #map], iterator_types = [#linalg.iterator_type<parallel>],
    operandSegmentSizes = array<i32: 1, 1>}> ({
    ^bb0(%x: f32, %y: f32):
      linalg.yield %x : f32
  }) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %p : tensor<4xf32>
}"""
FUNCTION = "func.func private @f() attributes {a ="
PARALLEL = "#linalg.iterator_type<parallel>"


def nested(before: str, after: str, depth: int) -> str:
    return before * depth + after * depth


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"\\FF.x"() : () -> ()', "-:1:1: error: expected UTF-8 in strings, got the byte 0xff"),
        ('\nmodule attributes {a = "b\\C3(\\""} {}', "-:2:24: error: expected UTF-8 in strings, got the byte 0xc3"),
        (f"func.func @f(%x: {nested('tuple<', '>', 10**5)}) {{ return }}", "-:1:3089: error: expected brackets to"),
        (f"module attributes {{a = {nested('[', ']', 10**5)}}} {{}}", f"nest at most {MAX_NESTING} deep"),
        (nested('"a.b"() ({', "}) : () -> ()", 10**4), f"nest at most {MAX_NESTING} deep"),
        (
            f"func.func @f(%a: f32) {{\n %0 = tensor.from_elements %a : tensor<{MANY}xf32>\n return }}",
            "MLIR's parser can parse, got tensors that end the parser (LLVM ERROR: SmallVector",
        ),
        (
            f"func.func @f(%a: f32) {{\n %0 = tensor.from_elements %a : tensor<{2**30}x{2**30}xf32>\n return }}",
            "error: expected tensors that MLIR's parser can parse, got tensors that end the parser",
        ),
        (
            GENERIC.format("[f32]"),
            "-:3:54: error: expected iterator_types that list strings",
        ),
        (GENERIC.format("[1 : i32]"), "got [1 : i32]"),
        (GENERIC.format(f"[{PARALLEL}]"), f"got [{PARALLEL}]"),
        (f"{FUNCTION} array<si32: 3>}}", "-:1:40: error: expected an array of i1, i8, i16, i32, i64, f32, f64, got"),
        (f"{FUNCTION} array<bf16>}}", "got array<bf16>"),
        ("#types = [f32]\n" + GENERIC.format("#types"), "got #types"),
    ],
)
def test_invalid_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        read_module(text, create_context())
    assert message in str(caught.value)
    assert re.match(r"-:[1-4]:\d+: error", str(caught.value))


@pytest.mark.parametrize(
    "text",
    [
        'module attributes {oneflow.a = "\\C3\\A4\\00\\"(((", oneflow.b = "ä"} {}',
        f"module attributes {{oneflow.a = {nested('[', ']', MAX_NESTING - 1)}}} {{}}",
        nested("module {", "}", MAX_NESTING),
        f"#s = affine_set<(d0) : ({', '.join(['d0 >= 0'] * 600)})>\n"
        + "".join(f"// {'(' * n}\n" for n in range(600)),
        f"func.func private @f(tensor<{MANY}xf32>) -> !llvm.array<{MANY} x i8>",
        f'// array<si32: 3>\n{FUNCTION} array<i1: true>, b = array<f64>, c = "array<ui8: 1>"}}',
        f"{FUNCTION} !llvm.struct<(array<4 x bf16>)>}}",
        GENERIC.format('[ "parallel" ]'),
        GENERIC_FORM,
    ],
)
def test_valid_text_is_parsed(text: str) -> None:
    """Strings with brackets and escapes, comments, comparisons, and the deepest and largest valid texts."""
    read_module(text, create_context())


DEFINED = """func.func @f(%x: f32) {
  "x.use"(%x) : (f32) -> ()
"""
#: A use before the definition in a later region, whose parse fails.
BROKEN = (
    DEFINED
    + """  "x.use"(%i) : (f32) -> ()
  "a.c"() ({
    DEFINITION
    "x.y"() : () -> (
  }) : () -> ()
}"""
)
LATER_BLOCK = """func.func @f() -> f32 {
  cf.br ^b
^a:
  %j = arith.negf %i : f32
  return %j : f32
^b:
  %i = arith.constant 1.0 : f32
  cf.br ^a
}"""


@pytest.mark.parametrize(
    "definition", ["^b(%i: f32):", '%i = "x.y"() : () -> f32', '%i:2 = "x.y"() : () -> (f32, f32)']
)
def test_wrong_text_with_forward_references_is_not_parsed_in_this_process(
    definition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After such an error the parser writes to freed memory."""
    monkeypatch.setattr(reader, "_parse", lambda *_: pytest.fail("expected no parse in this process"))
    with pytest.raises(ProgramError, match=r"^-:6:22: error: expected non-function type$"):
        read_module(BROKEN.replace("DEFINITION", definition), create_context())


def test_forward_references_between_blocks_are_read() -> None:
    assert "arith.negf %" in str(read_module(LATER_BLOCK, create_context()))


@pytest.mark.parametrize(
    ("text", "position"),
    [
        (LATER_BLOCK, "%i : f32"),
        (BROKEN.replace("DEFINITION", "^b(%i: f32):"), "%i) :"),
        (DEFINED + "}\nfunc.func @g() {\n return %x : f32\n}", "%x : f32"),
        (DEFINED + '"a.b"() ({ %i = "x.y"() : () -> f32 }) : () -> ()\n return %i\n}', "%i\n"),
        (DEFINED + "cf.br ^b(%i : f32)\n^b(%i: f32):\n}", "%i : f32)"),
        (DEFINED + '%i, %j = "x.y"() : () -> (f32, f32)\n return %j : f32\n}', None),
        ('func.func @f(%x: f32 {a = "%y"}, %y: f32) {\n// %z\n return %y : f32\n}', None),
        (GENERIC.format('["parallel"]'), None),
        (GENERIC_FORM, None),
    ],
)
def test_forward_references_are_found(text: str, position: str | None) -> None:
    assert find_forward_reference(text) == (None if position is None else text.index(position))
