"""OneFlow's operators for changes of layout: the operators of lowered programs, and the operators of eager boxing.

On the whole tensor each operator is the identity: `src -> dst` changes the layout of the tensor on the ranks. Before
layout inference each operator is decomposed to `hierarchical_parallel_cast`, one cast for every layout of the change;
the two layouts determine the collective, as for every other cast. OneFlow's eager operators take the tensor of a
rank; in this dialect the operand is the whole tensor, whose sizes are compared with the sizes among the attributes.

| in a table below | an SBP along a mesh axis |
| --- | --- |
| `B`, `P`, `S(0)` | exactly this SBP |
| `S` | a split along any axis |
| `S(1..)` | a split along any axis but the first |
| `*` | any SBP, the same before and after |
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.complex_parts import each_part
from oneflow.dialect.nd_sbp import NdSbp, check_nd_sbp, format_nd_sbp, problem
from oneflow.dialect.record import Call, define, no_sbp
from oneflow.dialect.sbp import B, P, S, Sbp
from oneflow.dialect.shapes import expect_dim
from oneflow.dialect.signature import mlir_name
from oneflow.dialect.tensor_desc import TensorDesc

#: The layouts that a tensor has one after another.
Change = Sequence[NdSbp]


def _changing_layout(signature: str, doc: str, changes: Callable[[Call], Sequence[Change]]) -> None:
    """Registers an operator that casts each operand to the layouts that `changes(op)` lists for the operand."""

    def types(op: Call) -> list[TensorDesc]:
        for desc, change in zip(op.operands, changes(op), strict=True):
            wrong = next((w for nd in change if (w := problem(nd, desc, (1,) * len(nd)))), None)
            if wrong is not None:
                raise op.error(f"{wrong} for {desc}")
        return op.operands

    def decompose(ops: Builder, op: Call) -> list[Value]:
        return [_cast(ops, x, change) for x, change in zip(op.operands, changes(op), strict=True)]

    def grad(ops: Builder, op: Call, *cotangents: Value | None) -> dict[str, Any]:
        """The cotangents in the layouts of the operands, whole where operands are partial sums."""
        pairs = zip(cotangents, changes(op), strict=True)
        back = [None if g is None else _cast(ops, g, [_without_sums(change[0])]) for g, change in pairs]
        return {"in": tuple(back) if isinstance(op.in_, tuple) else back[0]}

    name = signature.partition("(")[0]
    own = mlir_name(name)
    define(
        signature.replace(name, own, 1), depth=2, doc=doc, types=types, decompose=decompose, grad=grad,
        sbp=no_sbp("becomes casts before layouts are chosen"), parts=each_part, reference=_reference,
        unoffered="all, since it becomes casts before layouts are chosen", traits=frozenset({"boxing"}),
        oneflow_name="" if name == own else name,
    )  # fmt: skip


def _cast(ops: Builder, value: Value, change: Change) -> Value:
    for nd in change:
        value = ops.hierarchical_parallel_cast(value, nd_sbp=nd)
    return value


def _without_sums(nd: NdSbp) -> NdSbp:
    return tuple(B if sbp.is_partial else sbp for sbp in nd)


def _reference(x: Any, **attributes: Any) -> Any:
    return tuple(x) if isinstance(x, list) else x


#: The predicate of each pattern of an SBP.
_PATTERNS: dict[str, Callable[[Sbp], bool]] = {
    "B": lambda sbp: sbp == B,
    "P": lambda sbp: sbp == P,
    "S": lambda sbp: sbp.axis is not None,
    "S(0)": lambda sbp: sbp == S(0),
    "S(1..)": lambda sbp: sbp.axis is not None and sbp.axis >= 1,
    "*": lambda sbp: True,
}
_LOGICAL = "_nccl_logical_"
#: The change of layout that each operator of lowered programs stands for; None for any.
_CHANGES: dict[str, tuple[str, str] | None] = {
    "all_reduce": ("P", "B"),
    "reduce_scatter": ("P", "S(0)"),
    "reduce_scatter_noncontinuous": ("P", "S(1..)"),
    "all_gather": ("S(0)", "B"),
    "all_gather_noncontinuous": ("S(1..)", "B"),
    "s2s": ("S", "S"),
    "send_recv": None,
    "2D_same_dim0_all_reduce": ("* P", "* B"),
    "2D_same_dim0_all_gather": ("* S(0)", "* B"),
    "2D_same_dim0_all_gather_noncontinuous": ("* S(1..)", "* B"),
    "2D_same_dim0_all2all": ("* S", "* S"),
    "2D_same_dim1_all_reduce": ("P *", "B *"),
}


def _stated_change(op: Call, name: str, src: NdSbp, dst: NdSbp) -> Change:
    """The change from `src` to `dst`, which has to be a change of the operator `name`.

    Raises:
        OperatorError: the operator has no such change.
    """
    stated = _CHANGES[name.removeprefix(_LOGICAL)]
    if len(src) != len(dst) or not src:
        raise op.error(f"expected as many SBPs before as after, got {format_nd_sbp(src)} -> {format_nd_sbp(dst)}")
    if stated is not None and not (
        _agrees(stated[0], src) and _agrees(stated[1], dst) and _keeps(stated[0], src, dst)
    ):
        wanted = " -> ".join(s if " " not in s else f"[{s.replace(' ', ', ')}]" for s in stated)
        raise op.error(f"expected the change {wanted} of {name}, got {format_nd_sbp(src)} -> {format_nd_sbp(dst)}")
    return src, dst


def _agrees(patterns: str, nd: NdSbp) -> bool:
    wanted = patterns.split()
    return len(wanted) == len(nd) and all(_PATTERNS[p](s) for p, s in zip(wanted, nd, strict=True))


def _keeps(patterns: str, src: NdSbp, dst: NdSbp) -> bool:
    return all(p != "*" or a == b for p, a, b in zip(patterns.split(), src, dst, strict=True))


def _logical(op: Call) -> list[Change]:
    return [_stated_change(op, op.record.oneflow_name, op.src_reduced_nd_sbp, op.dst_reduced_nd_sbp)]


for _name, _change in _CHANGES.items():
    _text = "two layouts" if _change is None else f"the layouts {_change[0]} and then {_change[1]}"
    _changing_layout(
        f"{_LOGICAL}{_name}(in, src_reduced_nd_sbp: nd_sbp, dst_reduced_nd_sbp: nd_sbp) -> out",
        f"`in` itself, which has {_text}; an SBP is of one mesh axis.",
        _logical,
    )


def _fusion(op: Call) -> list[Change]:
    lists = op.src_nd_sbp_str_list, op.dst_nd_sbp_str_list, op.nccl_type_list
    if any(len(entries) != len(op.in_) for entries in lists):
        raise op.error(
            f"expected lists of an entry for each of {len(op.in_)} tensors, got {', '.join(map(str, lists))}"
        )
    return [_fused_change(op, *entry) for entry in zip(*lists, strict=True)]


def _fused_change(op: Call, src: str, dst: str, name: str) -> Change:
    if name.removeprefix(_LOGICAL) not in _CHANGES or not name.startswith(_LOGICAL):
        raise op.error(f"expected nccl_type_list to name {_LOGICAL} operators, got {name!r}")
    try:
        before, after = (check_nd_sbp(text.split(",")) for text in (src, dst))
    except ValueError as error:
        raise op.error(str(error)) from None
    return _stated_change(op, name, before, after)


_changing_layout(
    f"{_LOGICAL}fusion(in*, src_nd_sbp_str_list: list_string, dst_nd_sbp_str_list: list_string,"
    " nccl_type_list: list_string) -> out*",
    "The identity; the layout of tensor i changes as in the operator that entry i of `nccl_type_list` names.\n\n"
    "A layout is written as one string, such as `P,S(0)` for two mesh axes.",
    _fusion,
)

_DEVICES = re.compile(r"@?[\w.-]+:(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)")


def _mesh(op: Call, name: str) -> tuple[list[str], tuple[int, ...]]:
    """The devices in OneFlow's text of a placement, and the sizes of their mesh.

        device_tag: "cuda" device_name: "@0:0-3" hierarchy { dim: 2 dim: 2 }

    Raises:
        OperatorError: the text names no devices, or not as many as the hierarchy has.
    """
    names = re.findall(r'device_name:\s*"([^"]*)"', op[name])
    matches = [_DEVICES.fullmatch(n) for n in names]
    if not matches or None in matches:
        raise op.error(f"expected {name} to be a placement such as 'device_name: \"@0:0-3\"', got {op[name]!r}")
    parts = [part.split("-") for m in matches if m is not None for part in m[1].split(",")]
    count = sum(int(ids[-1]) - int(ids[0]) + 1 for ids in parts)
    hierarchy = re.search(r"hierarchy\s*\{([^}]*)\}", op[name])
    sizes = tuple(map(int, re.findall(r"dim:\s*(\d+)", hierarchy[1]))) if hierarchy else (count,)
    if math.prod(sizes) != count:
        raise op.error(f"expected the hierarchy of {name} to have {count} devices, got {op[name]!r}")
    return names, sizes


def _expect_shape(op: Call, name: str, shape: Sequence[int]) -> None:
    """Checks a shape that a program states for the whole tensor."""
    if None in op.in_.shape:
        raise op.error(f"expected static sizes of in, which {name} states, got {list(op.in_.shape)}")
    if len(shape) != op.in_.rank:
        raise op.error(f"expected {name} of the rank of in, {op.in_.rank}, got {list(shape)}")
    for axis, (size, wanted) in enumerate(zip(op.in_.shape, shape, strict=True)):
        expect_dim(op, f"axis {axis} of in", size, wanted)


def _expect_dtype(op: Call) -> None:
    if op.output_dtype != op.in_.dtype:
        raise op.error(f"expected output_dtype to be the type of in, {op.in_.dtype.mlir}, got {op.output_dtype.mlir}")


def _on_one_placement(op: Call) -> int:
    """The number of mesh axes of an operator with two placements, which have to be the same."""
    before, after = _mesh(op, "in_parallel_conf"), _mesh(op, "out_parallel_conf")
    if before != after:
        raise op.error(
            f"expected in_parallel_conf and out_parallel_conf to name the same devices, got {before} and {after};"
            " write a hierarchical_parallel_cast with the attribute placement"
        )
    _expect_shape(op, "shape", op.shape)
    return len(before[1])


def _gathered(op: Call) -> int:
    _expect_shape(op, "output_shape", op.output_shape)
    _expect_dtype(op)
    return len(_mesh(op, "parallel_conf")[1])


def _scattered(op: Call) -> int:
    """Checks the shape of a rank's shard, and that a sum is taken."""
    _, sizes = _mesh(op, "parallel_conf")
    if op.op_type != "sum":
        raise op.error(f"expected op_type to be 'sum', got {op.op_type!r}")
    first, *rest = op.output_shape or (1,)
    _expect_shape(op, "output_shape", (first * math.prod(sizes), *rest) if op.output_shape else ())
    _expect_dtype(op)
    return len(sizes)


def _spread(op: Call) -> int:
    if len(op.shape_list) != 1:
        raise op.error(f"expected shape_list to have the shape of in alone, got {list(op.shape_list)}")
    _expect_shape(op, "shape_list", op.shape_list[0])
    _, sizes = _mesh(op, "parallel_conf")
    if not 0 <= op.root < math.prod(sizes):
        raise op.error(f"expected root below {math.prod(sizes)}, the number of ranks, got {op.root}")
    return len(sizes)


def _reduced(op: Call) -> int:
    """Checks the root: a tensor that becomes a partial sum is kept on the first rank."""
    if op.root != 0:
        raise op.error(f"expected root 0, the rank that keeps a sum, got {op.root}")
    return _axes(op)


def _axes(op: Call) -> int:
    return len(_mesh(op, "parallel_conf")[1])


_CONF = "parallel_conf: string"
_CONFS = "in_parallel_conf: string, out_parallel_conf: string, shape: shape"
_OUTPUT = "output_shape: shape, output_dtype: data_type"
#: The layouts of a tensor along every mesh axis, in order; attributes other than axes; and the check of attributes.
#: `in` and `out` are splits along the axes `in_split_axis` and `out_split_axis`.
_EAGER: dict[str, tuple[str, str, Callable[[Call], int]]] = {
    "b_to_s": ("B out", _CONFS, _on_one_placement),
    "naive_s_to_s": ("in out", _CONFS, _on_one_placement),
    "p_to_b": ("P B", _CONFS, _on_one_placement),
    "p_to_s": ("P out", _CONFS, _on_one_placement),
    "s_to_b": ("in B", _CONFS, _on_one_placement),
    "s_to_p": ("in P", _CONFS, _on_one_placement),
    "symmetric_s_to_p": ("in P", _CONF, _axes),
    "ccl_s2s": ("in out", _CONF, _axes),
    "ccl_all_reduce": ("P B", _CONF, _axes),
    "ccl_all_gather": ("S(0) B", f"{_CONF}, {_OUTPUT}", _gathered),
    "ccl_reduce_scatter": ("P S(0)", f'{_CONF}, {_OUTPUT}, op_type: string = "sum"', _scattered),
    "ccl_reduce": ("P B P", f"{_CONF}, root: int64 = 0", _reduced),
    "ccl_broadcast": (
        "B",
        f"{_CONF}, shape_list: list_shape, root: int64 = 0, async_launch: bool = True",
        _spread,
    ),
}


def _eager(op: Call) -> list[Change]:
    stated, _, check = _EAGER[op.record.name.removeprefix("eager_")]
    named = {"B": B, "P": P, "S(0)": S(0)}
    axes = check(op)
    sides = [named.get(side) or S(op[f"{side}_split_axis"]) for side in stated.split()]
    return [[(sbp,) * axes for sbp in sides]]


_SPLITS = {"in": "S(in_split_axis)", "out": "S(out_split_axis)"}
for _name, (_stated, _attributes, _) in _EAGER.items():
    _layouts = ", then ".join(_SPLITS.get(s, s) for s in _stated.split())
    _split = "".join(f"{s}_split_axis: int64 = -1, " for s in ("in", "out") if s in _stated.split())
    _changing_layout(
        f"eager_{_name}(in, {_split}{_attributes}) -> out",
        f"`in` itself; its layout along every mesh axis is {_layouts}.",
        _eager,
    )
