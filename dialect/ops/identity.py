"""Identity operators that control gradients or the order of execution."""

from __future__ import annotations

from typing import Any

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.complex_parts import by_body, each_part
from oneflow.dialect.compute import Stage
from oneflow.dialect.elementwise import elementwise, neutral
from oneflow.dialect.record import Call, operator, zero_grad
from oneflow.dialect.sbp import B, P, S, Sbp, SbpSignature
from oneflow.dialect.tensor_desc import Shape, TensorDesc

elementwise(
    "stop_gradient(in) -> out", "`in` itself, through which no gradient flows.",
    scalar=lambda x: x, reference=lambda x: x, allowed=dtypes.ALL, linear="joint", grad=zero_grad,
    parts=by_body,
)  # fmt: skip
_DEVICES = "`in` itself: a program runs on one kind of device. OneFlow makes"
for _name, _attrs, _doc in (
    ("amp_white_identity", "", "`in` itself, at which OneFlow's automatic mixed precision continues in f16."),
    ("amp_black_identity", "", "`in` itself, at which OneFlow's automatic mixed precision stays in f32."),
    ("identity_buffer", ", buffer_size: int64 = 0", "`in` itself; how many results OneFlow keeps for later stages."),
    ("copy", "", f"{_DEVICES} a copy on another device."),
    ("copy_h2d", "", f"{_DEVICES} a copy from the host to the device."),
    ("copy_d2h", "", f"{_DEVICES} a copy from the device to the host."),
    ("pinned_identity", "", f"{_DEVICES} a copy in memory that devices read."),
    ("to_contiguous", "", "`in` itself: the elements of every value are stored in row-major order."),
):
    elementwise(
        f"{_name}(in{_attrs}) -> out", _doc,
        scalar=lambda x: x, reference=lambda x: x, allowed=dtypes.ALL, linear="joint", parts=by_body,
        laws=(neutral(f"drop-{_name}", f"{_name}(x) = x", lambda op: True),),
    )  # fmt: skip


def _static(op: Call) -> TensorDesc:
    if not op.input.is_static:
        raise op.error(f"expected a static shape of input, got {op.input}")
    desc: TensorDesc = op.input
    return desc


elementwise(
    "cast_to_static_shape(input) -> output", "`input` itself, whose sizes have to be known.", types=_static,
    scalar=lambda x: x, reference=lambda x: x, allowed=dtypes.ALL, linear="joint",
    laws=(neutral("drop-cast_to_static_shape", "cast_to_static_shape(x) = x", lambda op: True),),
)  # fmt: skip


def _placements(shape: Shape) -> list[Sbp]:
    return [*(S(i) for i, d in enumerate(shape) if d != 1), B, P]


@operator("depend(in, depend_tensor) -> out")
class Depend:
    """`in` itself, computed after `depend_tensor`. Equal computations before and after are not merged."""

    traits = frozenset({"barrier"})
    parts = each_part

    def types(op: Call) -> TensorDesc:
        desc: TensorDesc = op.in_
        return desc

    def sbp(op: Call) -> list[SbpSignature]:
        """`in` keeps its layout; the other tensor is not read."""
        others = _placements(op.depend_tensor.shape)
        return [SbpSignature((own, other), (own,)) for own in _placements(op.in_.shape) for other in others]

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        return {"in": dout}

    def compute(op: Call) -> Stage:
        return c.element_wise(op.in_.shape, lambda *i: op.in_[i], op.in_.dtype)

    def reference(x: Any, _: Any) -> Any:
        return x
