"""Updates of many parameters by one operator, as in OneFlow: one row for each of three optimizers, and averages.

Each is the update of one parameter, `optimizer`'s record, for every parameter: operands of a parameter are variadic,
numbers are shared, and so are the names of results.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import composite
from oneflow.dialect.numpy_builder import run_reference
from oneflow.dialect.ops import optimizer  # noqa: F401  (the updates of one parameter)
from oneflow.dialect.ops.update import COPY, NO_GRAD, NUMBERS
from oneflow.dialect.record import REGISTRY, Call, Operator, OperatorError, define, infer
from oneflow.dialect.sbp import Factors, common_axes
from oneflow.dialect.shapes import expect_dtype
from oneflow.dialect.signature import AttrDef
from oneflow.dialect.tensor_desc import TensorDesc

#: Operands of the update of one parameter that updates of many parameters do not have.
UNSUPPORTED_OPERANDS = ("max_v",)
#: Operands and attributes with other names than in the update of one parameter, and attributes with other defaults.
RENAMED = {"momentum": "momentum_buf", "beta": "momentum"}
DEFAULTS = {"beta": 0.0, "epsilon": 1e-05}
DIFFERENT_AXES, UNREAD = "parameters split each along its own axis", "model_copy in any way, where it is not read"
#: Unoffered signatures that a search finds.
UNOFFERED = {
    "multi_tensor_sgd_update": DIFFERENT_AXES,
    "multi_tensor_momentum_update": DIFFERENT_AXES,
    "multi_tensor_adam_update": DIFFERENT_AXES,
    **{f"multi_tensor_{name}_update_with_cast": UNREAD for name in ("sgd", "momentum", "adam")},
}


def _calls(one: Operator, op: Call) -> list[Call]:
    """The calls for one parameter each.

    Raises:
        OperatorError: an operand has more or fewer tensors than `model`.
    """
    count = len(op.model)
    for name, operand in op.inputs.items():
        if isinstance(operand, tuple) and len(operand) != count:
            raise op.error(f"expected as many tensors of {name} as of model, {count}, got {len(operand)}")
    names = [a.name for a in one.signature.inputs]
    attrs = {a.name: op.attrs[_called(a.name)] for a in one.signature.attrs}
    return [Call(one, {n: _part(op.inputs.get(_called(n)), i) for n in names}, attrs) for i in range(count)]


def _called(name: str) -> str:
    """The name here of an operand or attribute of the update of one parameter."""
    return RENAMED.get(name, name)


def _attribute(attr: AttrDef) -> AttrDef:
    """An attribute of the update of one parameter, under its name here."""
    return dataclasses.replace(attr, name=_called(attr.name), default=DEFAULTS.get(attr.name, attr.default))


def _part(operand: Any, index: int) -> Any:
    """The operand of the call for parameter `index`."""
    return operand[index] if isinstance(operand, tuple) else operand


def _types(one: Operator, op: Call) -> list[TensorDesc]:
    try:
        return _by_name([infer(one, call) for call in _calls(one, op)])
    except OperatorError as error:
        text = str(error).removeprefix(f"oneflow.{one.name}: ")
        raise op.error(re.sub(r"(?<=^expected )\w+(?= of )", lambda name: _called(name[0]), text)) from None


def _by_name(results: Sequence[Sequence[Any]]) -> list[Any]:
    """The results of all calls, in groups by name."""
    return [r for group in zip(*results, strict=True) for r in group]


def _sbp(op: Call) -> Factors:
    """All tensors of parameters are split along the same axis; scalars are broadcast."""
    models = common_axes(op.model)
    sides = [
        factors
        for operand in op.inputs.values()
        if operand is not None
        for factors in (models if isinstance(operand, tuple) else [" ".join("_" * operand.rank)])
    ]
    return Factors(f"{', '.join(sides)} -> {', '.join(models * (len(op.results) // len(models)))}")


def _register(name: str, one: Operator, names: Sequence[str]) -> None:
    """Registers the update `one` of many parameters, with its operands `names`."""
    own_names = [_called(n) for n in names]

    def decompose(ops: Builder, op: Call) -> list[Value]:
        calls = _calls(one, op)
        return _by_name([ops.call(one.name, *call.inputs.values(), **call.attrs) for call in calls])

    def reference(*operands: Any, **attrs: Any) -> list[Any]:
        op = Call(one, dict(zip(own_names, operands, strict=True)), attrs)
        return _by_name([run_reference(call) for call in _calls(one, op)])

    args = [f"{n}?" if n in NUMBERS else f"{n}+" for n in own_names]
    args += [str(_attribute(a)) for a in one.signature.attrs]
    results = [a.name.removesuffix("_out") for a in one.signature.outputs]
    outputs = [f"{_called(n)}_out+" for n in results if n in names]
    define(
        f"{name}({', '.join(args)}) -> {', '.join(outputs)}",
        doc=f"`{one.name}` of many parameters, which share the learning rate and the other numbers.",
        types=functools.partial(_types, one), sbp=_sbp, grad=NO_GRAD, decompose=decompose, reference=reference,
        unoffered=UNOFFERED.get(name, ""),
    )  # fmt: skip


for _one in map(REGISTRY.__getitem__, ("sgd_update", "momentum_update", "adam_update")):
    _names = [a.name for a in _one.signature.inputs if a.name not in (*UNSUPPORTED_OPERANDS, COPY)]
    _register(f"multi_tensor_{_one.name}", _one, _names)
    _register(f"multi_tensor_{_one.name}_with_cast", _one, [*_names[:2], COPY, *_names[2:]])


def _check_averages(op: Call) -> None:
    if len(op.model) != len(op.model_update):
        raise op.error(f"expected {len(op.model)} tensors in model_update, got {len(op.model_update)}")
    for old, new in zip(op.model, op.model_update, strict=True):
        expect_dtype(op, "model", old, dtypes.FLOATS)
        if not new.compatible(old):
            raise op.error(f"expected model_update of type {old}, got {new}")


def _write_averages(ops: Builder, op: Call) -> tuple[Value, ...]:
    pairs = zip(op.model, op.model_update, strict=True)
    return tuple(old * op.d + new * (1.0 - op.d) for old, new in pairs)


def _numpy_averages(model: Any, model_update: Any, *, d: Any) -> tuple[Any, ...]:
    pairs = ((old.astype(np.float64), new.astype(np.float64)) for old, new in zip(model, model_update, strict=True))
    return tuple((old * d + new * (1 - d)).astype(model[0].dtype) for old, new in pairs)


def _average_factors(op: Call) -> Factors:
    models = ", ".join(common_axes(op.model))
    return Factors(f"{models}, {models} -> {models}", "joint")


composite(
    "multi_tensor_yolov5_weight_update(model+, model_update+, d: float = 0.0) -> model_out+",
    "Running averages of parameters: d * model + (1 - d) * model_update.",
    write=_write_averages, reference=_numpy_averages, check=_check_averages, sbp=_average_factors, grad=NO_GRAD,
    unoffered=DIFFERENT_AXES,
)  # fmt: skip
