"""Declarations that share classes, as OneFlow's own files do: inheritance of operators, and the search for files."""

import os
import re
from pathlib import Path

import pytest

from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import ProgramError, read_module
from oneflow.dialect.record import REGISTRY, Registry
from oneflow.tools.declared_operators import declare, declare_missing
from oneflow.tools.ods import OdsOp, read_ods
from oneflow.tools.ods_parser import Dag, OdsError, Term
from oneflow.tools.ods_records import read_records

#: The file that includes the files of the tests, as OneFlow's does.
BASE = """
#ifndef BASE
#define BASE
include "mlir/IR/OpBase.td"
def Buffers : TensorOf<[BufferElement]>;
def SameEverywhere : NativeOpTrait<"SameEverywhere">;
class OneFlow_BaseOp<string mnemonic, list<Trait> traits = []> :
    Op<OneFlow_Dialect, mnemonic, !listconcat(traits, [SameEverywhere])> {
  dag input = (ins Optional<OneFlow_Tensor>:$UserSourceOpTickInput);
  dag output = (outs);
  dag trait_attrs = (ins);
  bit has_check_fn = 0;
  int same_output_regst_num = -1;
  let arguments = !con(input, trait_attrs);
}
class OneFlow_PairBaseOp<string mnemonic, list<Trait> traits = [NoGrad]> :
    OneFlow_BaseOp<mnemonic, !listconcat(traits, [NoMemoryEffect, CpuOnly])> {
  let summary = "Two of a kind.";
  let description = [{ A "pair" of tensors; [1, 2]. }];
  dag own_attrs = (ins StrAttr:$mode);
  dag more_attrs = (ins);
  let input = (ins AnyType:$a, Variadic<OneFlow_Tensor>:$b);
  let output = (outs Buffers:$c);
  let attrs = !con(own_attrs, more_attrs);
  let trait_attrs = (ins DenseI32ArrayAttr:$operand_segment_sizes);
  let has_check_fn = 1;
}
#endif
include "ops.td"
"""
OPS = """
#ifdef GET_PAIRS
def OneFlow_PlainPairOp : OneFlow_PairBaseOp<"t_plain_pair"> {}
def OneFlow_PairOp : OneFlow_PairBaseOp<"t_pair", []> {
  let more_attrs = (ins DefaultValuedAttr<SI64Attr, "3">:$times, BytesAttr:$data, ComplexDoubleAttr:$factor);
  let has_check_fn = 0;
  let has_device_and_stream_infer_fn = 1;
  let has_output_blob_time_shape_infer_fn = 1;
  let same_output_regst_num = 2;
}
def OneFlow_TSourceOp : OneFlow_BaseOp<"TSourceOp"> {
  let output = (outs OneFlow_Tensor:$LU);
  let attrs = (ins DefaultValuedAttr<BoolAttr, "0.">:$flag, DefaultValuedAttr<SI32Attr, "2.">:$count);
  let builders = [OpBuilder<(ins "int":$n, CArg<"ValueRange", "{}">:$in), [{ build(n); }]>, OpBuilder<(ins), [{}]>];
}
#endif
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "OneFlowBase.td").write_text(BASE)
    (tmp_path / "ops.td").write_text(OPS)
    return tmp_path


def read(path: Path) -> dict[str, OdsOp]:
    return {op.name: op for op in read_ods(path.read_text(), str(path))}


@pytest.mark.parametrize("name", ["ops.td", "OneFlowBase.td"])
def test_operators_have_the_fields_of_their_classes(folder, name):
    plain, pair, source = read(folder / name).values()
    assert plain.traits == ("NoGrad", "NoMemoryEffect", "CpuOnly", "SameEverywhere")
    assert pair.traits == ("NoMemoryEffect", "CpuOnly", "SameEverywhere")
    for op in (plain, pair):
        assert [(a.name, a.kind) for a in op.inputs] == [("a", ""), ("b", "Variadic")]
        assert [a.name for a in op.outputs] == ["c"]
    assert [(a.name, a.ods_type) for a in plain.attrs] == [("mode", "StrAttr")]
    assert [(a.name, a.default) for a in pair.attrs] == [
        ("mode", None),
        ("times", "3"),
        ("data", None),
        ("factor", None),
    ]
    assert plain.functions == ("has_check_fn",) and pair.functions == ()
    assert pair.refused == ("has_output_blob_time_shape_infer_fn", "has_device_and_stream_infer_fn")
    assert source.inputs == () and source.class_name == "TSourceOp"


def test_declared_operators_of_mixed_case(folder):
    registry = Registry(dict(REGISTRY.operators))
    declare(read(folder / "ops.td").values(), registry)
    assert str(registry["user_t_source_op"].signature) == (
        "user_t_source_op(flag: bool = False, count: int32 = 2) -> lu"
    )
    text = """func.func @main() -> tensor<2xf32> {
      %0 = "oneflow.user_t_source_op"() {ATTRS} : () -> tensor<2xf32>
      return %0 : tensor<2xf32>
    }"""
    read_module(text.replace("ATTRS", "flag = true"), create_context(registry), "p.mlir", registry)
    with pytest.raises(ProgramError, match="unknown attribute 'flags'"):
        read_module(text.replace("ATTRS", "flags = true"), create_context(registry), "p.mlir", registry)


def test_operators_that_are_implemented_stay():
    registry = Registry(dict(REGISTRY.operators))
    same = """
      def OneFlow_ReluOp : OneFlow_BaseOp<"relu"> {
        let input = (ins AnyType:$x);
        let output = (outs AnyType:$y);
      }
      def OneFlow_TNewOp : OneFlow_BaseOp<"t_new">;
    """
    made = declare_missing(read_ods(same, "ops.td"), registry)
    assert [record.name for record in made] == ["t_new"]
    with pytest.warns(UserWarning, match=r"are kept: relu of ops.td:2, which is relu\(x\) -> y$"):
        declare_missing(read_ods(same.replace("$x", "$in"), "ops.td"), registry)
    assert registry["relu"] is REGISTRY["relu"]


def test_evaluated_record_values():
    text = """
      class A<string first, int second = 2> : Pass<first> {
        int number = second;
        string text = !strconcat(first, "-", "b" "c");
        list<int> both = !listconcat([second], [number, -1]);
        dag args = !con((ins), (ins Optional<T>:$x, $y), (ins "z"));
      }
      def Two : A<"a"> { let number = 7; }
      def Three : A<"a", 3>, Pat<X>;
      def None;
    """
    (two, three, none), _ = read_records(text, "a.td")
    assert two.fields == {
        "number": 7,
        "text": "a-bc",
        "both": [2, 7, -1],
        "args": Dag("ins", ((Term("Optional", (Term("T"),)), "x"), (None, "y"), ("z", ""))),
    }
    assert (three.fields["number"], three.fields["both"], list(three.bases)) == (3, [3, 3, -1], ["A", "Pass", "Pat"])
    assert none.fields == {}


def test_files_are_included_once_and_found_above(folder):
    below = folder / "deep" / "below"
    below.mkdir(parents=True)
    (below / "mine.td").write_text(
        'include "OneFlowBase.td"\ninclude "ops.td"\ndef X : OneFlow_PairBaseOp<"t_mine">;\n'
    )
    assert list(read(below / "mine.td")) == ["t_plain_pair", "t_pair", "TSourceOp", "t_mine"]


@pytest.mark.parametrize(
    "text, message",
    [
        ("class A;\nclass A;", "x.td:2: class A is defined already at x.td:1"),
        ("class A<int n>;\ndef B : A;", "x.td:2: expected the argument n of A"),
        ("class A<int n>;\ndef B : A<1, 2>;", "x.td:2: expected at most 1 arguments of A"),
        ("def A {\n let x = !listcat([1]); }", "x.td:2: unknown operation !listcat; did you mean !listconcat?"),
        ("def A {\n let x = !con([1], 2); }", r"x.td:2: !con does not take \[1\], 2"),
        ("def A {\n x = 1; }", "x.td:2: expected a field, got ="),
        ("def A : C<[B]>;", "x.td:1: A is of the unknown class C"),
        ('def A : OneFlow_BaseOp<"a"> { let x = 1; }', "A has the unknown field x"),
        ("class A : A;\ndef B : A;", "x.td:1: A is of the unknown class A"),
        ("def A { let x = " + 10_000 * "[", "x.td: values or includes are nested too deeply"),
    ],
)
def test_refused_records(text, message):
    with pytest.raises(OdsError, match=message):
        read_ods(text, "x.td")


def test_the_files_of_oneflow():
    source = os.environ.get("ONEFLOW_SOURCE")
    if not source:
        pytest.skip("ONEFLOW_SOURCE does not name a checkout of OneFlow")
    folder = Path(source) / "oneflow/ir/include/OneFlow"
    path = folder / "OneFlowUserOps.td"
    ops = read(path)
    defined = re.findall(r'^def \w+ *: *\w+ *<\s*"(\w+)"', path.read_text(), re.MULTILINE)
    assert list(ops) == defined and len(ops) >= 700
    assert [a.name for a in ops["conv2d"].inputs] == ["in", "weight", "bias", "_add_to_output"]
    assert [a.name for a in ops["sqrt"].outputs] == ["y"]
    for whole in ("OneFlowOpGetGen.td", "OneFlowOps.td"):
        assert read(folder / whole).keys() >= ops.keys()
    registry = Registry(dict(REGISTRY.operators))
    with pytest.warns(UserWarning, match="are kept"):
        made = declare_missing(ops.values(), registry)
    assert {r.name for r in made} & REGISTRY.operators.keys() == set()
