"""Casts of the layout over devices, and the collectives that implement the casts.

`hierarchical_parallel_cast` belongs to the logical program: it changes no element, only the layout of the tensor. The
`ccl_*` operators belong to the program of one rank. The names of these operators are OneFlow's
(`eager_ccl_all_reduce`, `_nccl_logical_all_reduce`) without the prefixes of modes and libraries: one form serves
every mode, executed by MPI or NCCL. All have the same attributes: `mesh_axes` along which the members of the group
differ, the number of `members`, the `index` of this rank among them, and in programs of several placements the
`ranks` of the members. Collectives are not pure: every member must issue collectives in the same order. Operators
with `in+` take several tensors of one element type in one collective.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.complex_parts import PartsBuilder, each_part
from oneflow.dialect.compute import Stage
from oneflow.dialect.decomposition_gradient import mapped
from oneflow.dialect.nd_sbp import local_shape, parse_sbp, problem
from oneflow.dialect.record import Call, Operator, Rule, define, no_grad, no_sbp, operator
from oneflow.dialect.sbp import Factors, Sbp
from oneflow.dialect.shapes import expect_dim, expect_dtype, letters, same_dtype
from oneflow.dialect.tensor_desc import Dim, TensorDesc

MODES = ("identity", "restore", "manual", "auto")
REDUCE_TYPES = ("sum", "max")


@operator(
    'hierarchical_parallel_cast(in, nd_sbp: nd_sbp, grad_mode: string = "identity", grad_nd_sbp: nd_sbp = [],'
    ' placement: string = "") -> out'
)
class HierarchicalParallelCast:
    """`in` with the layout `nd_sbp` on the mesh: one SBP per mesh axis.

    The gradient has the layout `grad_nd_sbp` in the mode `manual`; in the modes `identity`, `restore` and `auto` the
    gradient is passed on unchanged, and inference chooses. `placement` names the ranks that receive the tensor, one
    of the module's `oneflow.placements` or "mesh" for all ranks; the gradient returns to the ranks of `in`.
    """

    parts = each_part

    def types(op: Call) -> TensorDesc:
        if op.grad_mode not in MODES:
            raise op.error(f"expected grad_mode to be one of {', '.join(MODES)}, got {op.grad_mode!r}")
        for nd in (op.nd_sbp, op.grad_nd_sbp):
            wrong = problem(nd, op.in_, (1,) * len(nd))
            if wrong is not None:
                raise op.error(f"{wrong} for {op.in_}")
        desc: TensorDesc = op.in_
        return desc

    def sbp(op: Call) -> Factors:
        names = " ".join(letters(op.in_.shape))
        return Factors(f"{names} -> {names}", "joint")

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        stated = op.grad_mode == "manual"
        if op.placement:
            nd = op.grad_nd_sbp if stated else op.nd_sbp
            return {"in": ops.hierarchical_parallel_cast_like(dout, op.in_, nd_sbp=nd, stated=stated)}
        return {"in": ops.hierarchical_parallel_cast(dout, nd_sbp=op.grad_nd_sbp) if stated else dout}

    def decompose(ops: Builder, op: Call) -> Value:
        value: Value = op.in_
        return value

    def reference(x: Any, **layout: Any) -> Any:
        return x


def _stated(op: Call, name: str) -> Sbp | None:
    """The layout that an attribute states, None for none."""
    text = op[name]
    if not text:
        return None
    try:
        stated = parse_sbp(text)
    except ValueError:
        stated = None
    if stated is None:
        raise op.error(f"expected {name} to be S(axis), B, P or empty, got {text!r}")
    wrong = problem((stated,), op.in_, (1,))
    if wrong is not None:
        raise op.error(f"{name}: {wrong} for {op.in_}")
    return stated


@operator("parallel_cast(in, sbp_parallel: string, grad_sbp_parallel: string) -> out")
class ParallelCast:
    """`in` with the layout `sbp_parallel` on a mesh of one axis, the gradient with the layout `grad_sbp_parallel`.

    A layout is S(axis), B or P; an empty layout is inferred. Inference replaces the operator by a
    `hierarchical_parallel_cast`.
    """

    sbp = HierarchicalParallelCast.sbp
    decompose = HierarchicalParallelCast.decompose
    reference = HierarchicalParallelCast.reference

    def types(op: Call) -> TensorDesc:
        for name in ("sbp_parallel", "grad_sbp_parallel"):
            _stated(op, name)
        desc: TensorDesc = op.in_
        return desc

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        if not op.grad_sbp_parallel:
            return {"in": dout}
        return {"in": ops.parallel_cast(dout, sbp_parallel=op.grad_sbp_parallel, grad_sbp_parallel=op.sbp_parallel)}


@operator("hierarchical_parallel_cast_like(in, like, nd_sbp: nd_sbp, stated: bool = False) -> out")
class HierarchicalParallelCastLike:
    """`in` on the ranks of the placement of `like`, whose elements do not matter.

    The layout there is `nd_sbp` if the placement has as many mesh axes, else the tensor is replicated. A tensor that
    is on these ranks already is not moved, unless the program has `stated` the layout.
    """

    parts = each_part

    def types(op: Call) -> TensorDesc:
        desc: TensorDesc = op.in_
        if not desc.compatible(op.like):
            raise op.error(f"expected like of the type of in, {desc}, got {op.like}")
        return desc

    sbp = no_sbp("becomes a cast before layouts are chosen")
    unoffered = "all, since it becomes a cast before layouts are chosen"

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        return {"in": ops.hierarchical_parallel_cast_like(dout, op.in_, nd_sbp=op.nd_sbp), "like": None}

    def decompose(ops: Builder, op: Call) -> Value:
        """`in`, whose dynamic sizes are compared with the sizes of `like` at run time."""
        value: Value = op.in_
        known = value.desc.is_static and op.like.desc.is_static
        return value if known else ops.call("broadcast_like", value, op.like, broadcast_axes=())[0]

    def reference(x: Any, like: Any, **layout: Any) -> Any:
        return x


GROUP = "mesh_axes: list_int32, members: int64, index: int64 = 0, ranks: list_int64 = []"


def _group_of_one(op: Call) -> list[Stage]:
    """A group of one returns its operands; the runtime carries out the others, not a kernel."""
    if op.members != 1:
        raise op.error(f"expected to run between {op.members} ranks (oneflow-run --nproc), got a kernel of one")
    return [c.element_wise(x.shape, lambda *i, x=x: x[i], x.dtype) for x in op.operands]


def _group_of_one_reference(x: Any, *, members: Any, **group: Any) -> Any:
    if members != 1:
        raise ValueError(f"expected the tensors of {members} ranks, got the tensor of one")
    return x


def _map_tensors(op: Call, rule: Callable[[int, TensorDesc, str], TensorDesc]) -> list[TensorDesc]:
    """The results of a rule for each tensor, its index and its name in messages."""
    same_dtype(op, op.in_)
    several = len(op.in_) > 1
    return [rule(i, x, f"in {i}" if several else "in") for i, x in enumerate(op.in_)]


def _expect_group(op: Call) -> None:
    if not (op.mesh_axes or op.ranks) or not 0 <= op.index < op.members:
        raise op.error(
            f"expected mesh_axes, and an index below members, got axes {list(op.mesh_axes)},"
            f" index {op.index} of {op.members}"
        )
    if op.ranks and len(op.ranks) != op.members:
        raise op.error(f"expected ranks of {op.members} members, got {list(op.ranks)}")


def _expect_sizes(op: Call, name: str, sizes: Sequence[int], axis: str, desc: TensorDesc) -> int:
    """The axis along which `sizes` are cut, one for every member.

    Raises:
        OperatorError: the sizes are not one per member, or the axis is out of range.
    """
    if len(sizes) != op.members or any(d < 0 for d in sizes):
        raise op.error(f"expected {name} of {op.members} members, got {list(sizes)}")
    return op.normalize_axis(op[axis], desc.rank, axis)


def _resized(axis: int, size: Dim, desc: TensorDesc) -> TensorDesc:
    return TensorDesc((*(desc.shape or ())[:axis], size, *(desc.shape or ())[axis + 1 :]), desc.dtype)


def _cut(op: Call, axis: int, sizes: Any, desc: TensorDesc, name: str = "in") -> TensorDesc:
    """`desc`, whole along `axis`, as the shard of this member."""
    expect_dim(op, f"axis {axis} of {name}", (desc.shape or ())[axis], sum(sizes))
    return _resized(axis, sizes[op.index], desc)


def _joined(op: Call, axis: int, sizes: Any, desc: TensorDesc, name: str = "in") -> TensorDesc:
    """`desc`, the shard of this member along `axis`, as the whole."""
    expect_dim(op, f"axis {axis} of {name}", (desc.shape or ())[axis], sizes[op.index])
    return _resized(axis, sum(sizes), desc)


def _sizes_of(op: Call, index: int) -> Sequence[int]:
    """The sizes of the members' shards of tensor `index`: `sizes` has the sizes of the first tensor, then of the
    next.

    Raises:
        OperatorError: the sizes are not one per member and tensor.
    """
    if len(op.sizes) != op.members * len(op.in_):
        several = f" for each of {len(op.in_)} tensors" if len(op.in_) > 1 else ""
        raise op.error(f"expected sizes of {op.members} members{several}, got {list(op.sizes)}")
    sizes: Sequence[int] = op.sizes[op.members * index : op.members * (index + 1)]
    return sizes


def _expect_reduced(op: Call, desc: TensorDesc, name: str = "in") -> TensorDesc:
    """Checks the operands of a sum or a maximum."""
    expect_dtype(op, name, desc, dtypes.NUMERIC, only_real=op.reduce_type != "sum")
    if op.reduce_type not in REDUCE_TYPES:
        raise op.error(f"expected reduce_type to be one of {', '.join(REDUCE_TYPES)}, got {op.reduce_type!r}")
    return desc


def _all_reduce(op: Call) -> list[TensorDesc]:
    return _map_tensors(op, lambda _, desc, name: _expect_reduced(op, desc, name))


def _reduce(op: Call) -> TensorDesc:
    _expect_root(op)
    return _expect_reduced(op, op.in_)


def _broadcast(op: Call) -> TensorDesc:
    _expect_root(op)
    desc: TensorDesc = op.in_
    return desc


def _expect_root(op: Call) -> None:
    if not 0 <= op.root < op.members:
        raise op.error(f"expected root below the {op.members} members, got {op.root}")


def _reduce_scatter(op: Call) -> list[TensorDesc]:
    def shard(index: int, desc: TensorDesc, name: str) -> TensorDesc:
        expect_dtype(op, name, desc, dtypes.NUMERIC)
        sizes = _sizes_of(op, index)
        return _cut(op, _expect_sizes(op, "sizes", sizes, "axis", desc), sizes, desc, name)

    return _map_tensors(op, shard)


def _all_gather(op: Call) -> list[TensorDesc]:
    def gathered(index: int, desc: TensorDesc, name: str) -> TensorDesc:
        sizes = _sizes_of(op, index)
        return _joined(op, _expect_sizes(op, "sizes", sizes, "axis", desc), sizes, desc, name)

    return _map_tensors(op, gathered)


def _all_to_all(op: Call) -> TensorDesc:
    before, after = (_expect_sizes(op, f"{s}_sizes", op[f"{s}_sizes"], f"{s}_axis", op.in_) for s in ("in", "out"))
    if before == after:
        raise op.error(f"expected in_axis and out_axis to differ, got {before}")
    return _cut(op, after, op.out_sizes, _joined(op, before, op.in_sizes, op.in_))


def _send_recv(op: Call) -> TensorDesc:
    if op.dst_members:
        _expect_sides(op)
    elif math.prod(op.mesh) != op.members or len(op.mesh) != len(op.mesh_axes):
        raise op.error(
            f"expected a mesh of {op.members} members, one size for each of mesh_axes, got {list(op.mesh)}"
        )
    sides = (
        ("mesh", "src_nd_sbp", "src_members"),
        ("dst_mesh" if op.dst_members else "mesh", "dst_nd_sbp", "dst_members"),
    )
    before, after = (_shard_of(op, *side) for side in sides)
    if not op.in_.compatible(before):
        raise op.error(f"expected in of type {before}, the shard of this member, got {op.in_}")
    return after


def _expect_sides(op: Call) -> None:
    """Checks the meshes of a tensor that moves from some members to others."""
    for mesh, members in ((op.mesh, op.src_members), (op.dst_mesh, op.dst_members)):
        if math.prod(mesh) != len(members) or not all(0 <= m < op.members for m in members):
            raise op.error(f"expected a mesh of {list(members)}, members below {op.members}, got {list(mesh)}")


def _shard_of(op: Call, mesh: str, nd_sbp: str, members: str) -> TensorDesc:
    """The shard of the member on one side of the transfer; empty if the member is not among `members`."""
    wrong = problem(op[nd_sbp], TensorDesc(op.shape, op.in_.dtype), op[mesh])
    if wrong is not None or any(s.kind == "P" for s in op[nd_sbp]):
        raise op.error(wrong or "expected no partial sums; reduce the partial sums first")
    places = list(op[members] or range(op.members))
    if op.index not in places:
        return TensorDesc((0,), op.in_.dtype)
    return TensorDesc(local_shape(op.shape, op[nd_sbp], op[mesh], places.index(op.index)), op.in_.dtype)


def _same_memory(op: Call) -> list[tuple[int, int]]:
    """Sums and maxima are written into the memory of the operands."""
    return [(i, i) for i in range(len(op.operands))]


def _on_pairs(ops: PartsBuilder, op: Call) -> list[Value]:
    """The collective on pairs of reals along a last axis, so that both parts are sent at once."""
    attrs = {k: v - 1 if k.endswith("axis") and v < 0 else v for k, v in op.attrs.items()}
    if "shape" in attrs:
        attrs["shape"] = (*attrs["shape"], 2)
    pairs = {k: mapped(lambda x: ops.call("view_as_real", x)[0], x) for k, x in op.inputs.items()}
    results = ops.call(op.record.name, *pairs.values(), **attrs)
    return [ops.call("view_as_complex", r)[0] for r in results]


def _collective(attrs: str, doc: str, types: Rule, count: str = "", in_place: Rule | None = None) -> Operator:
    """Registers the collective `ccl` + the name of `types`; `count` is "+" where it may take several tensors."""

    def checked(op: Call) -> Any:
        _expect_group(op)
        return types(op)

    return define(
        f"ccl{types.__name__}(in{count}, {attrs}{GROUP}) -> out{count}",
        depth=2, doc=doc, types=checked, sbp=no_sbp("belongs to the program of one rank"), compute=_group_of_one,
        pure=False, grad=no_grad("is inserted after gradients are built"), reference=_group_of_one_reference,
        traits=frozenset({"collective"}), in_place=in_place, parts=_on_pairs,
    )  # fmt: skip


_collective(
    'reduce_type: string = "sum", ',
    "The sum or the maximum of the members' tensors, on every member; f16 and bf16 are summed in f32, and NaN is\n"
    "the maximum where an element is NaN.",
    _all_reduce,
    "+",
    _same_memory,
)
_collective(
    'reduce_type: string = "sum", root: int64 = 0, ',
    "The sum or the maximum of the members' tensors on member `root`; zeros on the others, so that sums stay.",
    _reduce,
)
_collective("root: int64 = 0, ", "The tensor of member `root`, on every member.", _broadcast)
_collective(
    "axis: int64, sizes: list_int64, ",
    "The sum of the members' tensors; each member receives its shard along `axis`, member i `sizes[i]` long.\n"
    "`sizes` has the sizes of one tensor, then the sizes of the next.",
    _reduce_scatter,
    "+",
)
_collective(
    "axis: int64, sizes: list_int64, ",
    "The concatenation of the members' shards along `axis`, on every member; the shard of member i has `sizes[i]`.\n"
    "`sizes` has the sizes of one tensor, then the sizes of the next.",
    _all_gather,
    "+",
)
_collective(
    "in_axis: int64, in_sizes: list_int64, out_axis: int64, out_sizes: list_int64, ",
    "Shards along `in_axis` become shards along `out_axis`: member i sends to j the elements in the shard of j.",
    _all_to_all,
)
_collective(
    "shape: shape, mesh: shape, src_nd_sbp: nd_sbp, dst_nd_sbp: nd_sbp, src_members: list_int64 = [],"
    " dst_mesh: shape = [], dst_members: list_int64 = [], ",
    "Shards of a tensor of `shape` in the layout `src_nd_sbp` become shards in the layout `dst_nd_sbp`.\n\n"
    "`mesh` are the sizes of `mesh_axes`. Every member receives the elements that it lacks from the owner at\n"
    "its own position along the mesh axes where the source is replicated. Between placements the shards before are "
    "those\n"
    "of `src_members` in `mesh`, those after of `dst_members` in `dst_mesh`; who is neither has an empty tensor.",
    _send_recv,
)
