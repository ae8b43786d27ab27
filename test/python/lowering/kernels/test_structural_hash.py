"""Structural hashes are equal exactly for operations that are equal up to captured values."""

import pytest

import oneflow as flow
from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.structural_hash import StructuralHasher
from oneflow.passes.structure import operands_of

MAP = "affine_map<(d0) -> (d0)>"
#: Bodies of two inputs; `%c` and `%d` are captured.
BODIES = {
    "plain": "%r = arith.subf %a, %b : f32",
    "again": "%r = arith.subf %a, %b : f32",
    "turned": "%r = arith.subf %b, %a : f32",
    "same": "%r = arith.subf %a, %a : f32",
    "flags": "%r = arith.subf %a, %b fastmath<nnan> : f32",
    "other": "%r = arith.addf %a, %b : f32",
    "longer": "%s = arith.subf %a, %b : f32 %r = arith.subf %s, %b : f32",
    "outside": "%r = arith.subf %a, %c : f32",
    "outside too": "%r = arith.subf %a, %d : f32",
    "both": "%s = arith.subf %a, %c : f32 %r = arith.subf %s, %d : f32",
    "nested": "%r = scf.if %p -> f32 { scf.yield %c : f32 } else { scf.yield %a : f32 }",
    "nested too": "%r = scf.if %p -> f32 { scf.yield %a : f32 } else { scf.yield %c : f32 }",
}
BRANCHES = """
  %e = scf.execute_region -> f32 {
    cf.cond_br %p, ^one, ^two
  ^one:
    scf.yield %c : f32
  ^two:
    scf.yield %d : f32
  }"""


@pytest.fixture(scope="module")
def ops():
    bodies = "".join(
        f"%g{index} = linalg.generic {{indexing_maps = [{MAP}, {MAP}, {MAP}], iterator_types = ['parallel']}} "
        f"ins(%x, %{'xy'[index % 2]} : tensor<4xf32>, tensor<4xf32>) outs(%x : tensor<4xf32>) {{\n"
        f"^bb0(%a: f32, %b: f32, %o: f32): {body} linalg.yield %r : f32 }} -> tensor<4xf32>\n".replace("'", '"')
        for index, body in enumerate(BODIES.values())
    )
    arguments = "%x: tensor<4xf32>, %y: tensor<4xf32>, %c: f32, %d: f32, %p: i1"
    with flow.trace(lambda x: x, flow.TensorSpec((1,))).context, ir.Location.unknown():
        module = ir.Module.parse(f"func.func @main({arguments}) {{\n{bodies}{BRANCHES}\nreturn }}")
        found = [o.operation for o in module.body.operations[0].regions[0].blocks[0].operations]
        yield dict(zip([*BODIES, "branches", "return"], found, strict=True))


def test_hash_is_equal_for_bodies_equal_up_to_captured_values(ops):
    hasher = StructuralHasher()
    hashes = {name: hasher.read(op).structural_hash for name, op in ops.items()}
    alike = {"again": "plain", "outside too": "outside"}
    assert all((hashes[a] == hashes[b]) == (alike.get(a, a) == alike.get(b, b)) for a in BODIES for b in BODIES)
    assert hashes["branches"] is None


def test_captured_values_are_the_operands_from_outside(ops):
    hasher = StructuralHasher()
    assert all(hasher.read(op).captured_values == operands_of(op) for op in ops.values())
    x, y = (ops["again"].operands[n] for n in (0, 1))
    ops["outside"].operands[0] = y
    assert hasher.read(ops["outside"]).captured_values == operands_of(ops["outside"])
    ops["outside"].operands[0] = x


def test_types_and_attributes_change_the_hash():
    module = flow.trace(lambda x: (x.sum(0), x.sum(1), x.reshape(4, 3).sum(1)), flow.TensorSpec((3, 4)))
    sums = [o.operation for o in module.body.operations[0].regions[0].blocks[0].operations]
    hasher = StructuralHasher()
    assert len({hasher.read(op).structural_hash for op in sums if op.name == "oneflow.reduce_sum"}) == 3


@pytest.mark.parametrize(
    ("function", "count"),
    [
        (lambda x, y: (flow.softmax(x - y), flow.softmax(y - x)), 1),
        (lambda x, y: (flow.softmax(x - y), flow.softmax(x - x * y)), 2),
        (lambda x, y: (flow.softmax(x - y), flow.softmax(x - y, dim=0)), 2),
        (lambda x, y: ((x @ y) * 2.0, (y @ x) * 2.0, (x @ x) * 2.0, (x @ y) * 3.0), 3),
    ],
)
def test_groups_of_equal_structure_share_a_kernel(function, count):
    spec = flow.TensorSpec((8, 8))
    text = flow.compile(function, specs=[spec, spec], device="cpu").ir("kernels")
    assert text.count("func.func private @") == count


def test_operations_at_addresses_of_erased_ones_are_hashed_again():
    """A new operation can get the address of an erased operation; the hasher does not observe the erasure."""
    hasher = StructuralHasher()
    with ir.Context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True
        block = ir.Module.create().body
        for name in ["a.one", "a.two"] * 10:
            op = ir.Operation.create(name, ip=ir.InsertionPoint(block))
            assert hasher.read(op).structural_hash == (name == "a.two")
            op.erase()
