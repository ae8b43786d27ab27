"""The SBP annotations of a program: the mesh, and the nd-SBPs of arguments, results and operations.

| attribute | on | value |
| --- | --- | --- |
| `oneflow.mesh` | the module | the sizes of the mesh axes: `array<i64: 2, 2>` |
| `oneflow.nd_sbp` | arguments and results of functions | the layout: `[#sbp.split<0>, #sbp.broadcast]` |
| `oneflow.in_nd_sbp`, `oneflow.out_nd_sbp` | operations | the same for each operand and each result |
| `oneflow.placements` | the module | named parts of the mesh: `{front = dense<[0, 1]> : tensor<2xi64>}` |
| `oneflow.placement` | arguments, results and operations | the part of the mesh that they are on; default: all ranks
| | `oneflow.joined` | casts, after `oneflow-join-boxing` | the index of the bucket: its casts form one collective | |
`oneflow.logical_shape` | arguments and results, after `oneflow-to-physical` | the shape of the whole tensor | |
`oneflow.rank` | the module, after `oneflow-to-physical` | the rank of the program |

Before inference the same attributes are constraints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from oneflow.dialect import nd_sbp
from oneflow.dialect._mlir import ir
from oneflow.dialect.nd_sbp import Mesh, NdSbp, devices, problem, read_nd_sbp, write_nd_sbp
from oneflow.dialect.tensor_desc import TensorDesc, from_mlir
from oneflow.passes.base import PassError

MESH, RANK = nd_sbp.MESH, "oneflow.rank"
PLACEMENTS, PLACEMENT = "oneflow.placements", "oneflow.placement"
ND_SBP, SHAPE = nd_sbp.ND_SBP, "oneflow.logical_shape"
IN, OUT = nd_sbp.IN, nd_sbp.OUT
JOINED = "oneflow.joined"
#: Limits of a mesh; signatures and paths between layouts are enumerated over its axes.
MAX_DEVICES, MAX_AXES = 1 << 16, 4
ARGUMENTS, RESULTS = "arg_attrs", "res_attrs"
#: The operations that state a layout of a tensor; `parallel_cast` does on a mesh of one axis.
PLAIN_CAST = "oneflow.parallel_cast"
PARALLEL_CAST = "oneflow.hierarchical_parallel_cast"
PARALLEL_CAST_LIKE = "oneflow.hierarchical_parallel_cast_like"


def read_mesh(module: ir.Operation) -> Mesh:
    """The mesh of a program.

    Raises:
        PassError: the program has no mesh, or the mesh is not a list of positive sizes.
    """
    if MESH not in module.attributes:
        raise PassError(f"expected a mesh: the module attribute {MESH} = array<i64: 2, 2>, or the option mesh=2,2")
    attr = module.attributes[MESH]
    mesh = tuple(int(n) for n in attr) if isinstance(attr, ir.DenseI64ArrayAttr) else ()
    return check_mesh(mesh, str(attr))


def check_mesh(mesh: Mesh, text: str) -> Mesh:
    """`mesh`, which `text` writes.

    Raises:
        PassError: the mesh has no axes, an axis without devices, or too many devices.
    """
    if not mesh or min(mesh) < 1:
        raise PassError(f"expected a mesh of positive sizes such as array<i64: 2, 2>, got {text}")
    if devices(mesh) > MAX_DEVICES or len(mesh) > MAX_AXES:
        raise PassError(f"expected a mesh of at most {MAX_DEVICES} devices and {MAX_AXES} axes, got {text}")
    return mesh


def write_mesh(module: ir.Operation, mesh: Mesh) -> None:
    """States the mesh of a program."""
    module.attributes[MESH] = ir.DenseI64ArrayAttr.get(mesh)


def read_values(function: ir.Operation, name: str, count: int) -> list[NdSbp | None]:
    """The nd-SBPs of a function's arguments (`name` is `ARGUMENTS`) or results, None where not annotated.

    Raises:
        PassError: an annotation is no nd-SBP.
    """
    if name not in function.attributes:
        return [None] * count
    return [_read(a[ND_SBP], function) if ND_SBP in a else None for a in function.attributes[name]]


def read_operation(op: ir.Operation, name: str) -> list[NdSbp] | None:
    """The nd-SBPs of an operation's operands (`name` is `IN`) or results (`OUT`), None without annotation.

    Raises:
        PassError: the annotation is not a list of nd-SBPs.
    """
    if name not in op.attributes:
        return None
    attr = op.attributes[name]
    if not isinstance(attr, ir.ArrayAttr):
        raise PassError(f"{op.name}: expected {name} to be a list of lists such as [[#sbp.broadcast]], got {attr}")
    return [_read(a, op) for a in attr]


def _read(attr: ir.Attribute, op: ir.Operation) -> NdSbp:
    try:
        return read_nd_sbp(attr)
    except ValueError as error:
        raise PassError(f"{op.name}: {error}", op.location) from None


def write_operation(op: ir.Operation, inputs: Sequence[NdSbp], outputs: Sequence[NdSbp]) -> None:
    """States the layouts of the operands and results of an operation."""
    write_side(op, IN, inputs)
    write_side(op, OUT, outputs)


def write_side(op: ir.Operation, name: str, layouts: Sequence[NdSbp]) -> None:
    """States the layouts of the operands (`name` is `IN`) or results (`OUT`) of an operation."""
    op.attributes[name] = ir.ArrayAttr.get([write_nd_sbp(nd) for nd in layouts])


def write_joined(op: ir.Operation, bucket: int) -> None:
    """States that a cast is part of the collective of a bucket."""
    op.attributes[JOINED] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), bucket)


def read_joined(op: ir.Operation) -> int | None:
    """The index of the bucket that a cast belongs to; None for a collective of one tensor.

    Raises:
        PassError: the attribute is no integer.
    """
    if JOINED not in op.attributes:
        return None
    attr = op.attributes[JOINED]
    if not isinstance(attr, ir.IntegerAttr):
        raise PassError(f"{op.name}: expected {JOINED} to be an integer, got {attr}", op.location)
    return int(attr.value)


def drop_operation(op: ir.Operation) -> None:
    """Removes the annotations of an operation."""
    for name in (IN, OUT, PLACEMENT):
        if name in op.attributes:
            del op.attributes[name]


def annotate_values(
    function: ir.Operation, name: str, count: int, attributes: Callable[[int], Mapping[str, ir.Attribute]]
) -> None:
    """Adds `attributes(i)` to the attributes of argument (`ARGUMENTS`) or result i of a function."""
    old = function.attributes[name] if name in function.attributes else [{}] * count
    dicts = [{a: d[a] for a in _names(d)} | dict(attributes(i)) for i, d in enumerate(old)]
    function.attributes[name] = ir.ArrayAttr.get([ir.DictAttr.get(d) for d in dicts])


def _names(attrs: ir.DictAttr | Mapping[str, ir.Attribute]) -> list[str]:
    return [a.name for a in attrs] if isinstance(attrs, ir.DictAttr) else list(attrs)


def expect_layout(nd: NdSbp, desc: TensorDesc, mesh: Mesh, what: str, location: ir.Location) -> None:
    """Checks that the tensor called `what` can have the layout `nd`.

    Raises:
        PassError: the number of mesh axes or a split axis does not fit, or the elements have no sums.
    """
    wrong = problem(nd, desc, mesh)
    if wrong is not None:
        raise PassError(f"{what}: {wrong} for {desc}", location)


def expect_static(desc: TensorDesc | None, op: ir.Operation) -> TensorDesc | None:
    """`desc`; None for a value that is no tensor.

    Raises:
        PassError: its shape is not static.
    """
    if desc is not None and not desc.is_static:
        raise PassError(
            f"expected static shapes where tensors are split over devices, got {desc};"
            " state the shapes: programs of many devices are compiled for each of them",
            op.location,
        )
    return desc


def is_tensor(kind: ir.Type) -> bool:
    """Whether values of this type have a layout on the mesh: tensors of OneFlow's types do."""
    return from_mlir(kind) is not None
