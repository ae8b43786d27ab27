"""Operators that users define in Python: `flow.operator`, `flow.elementwise`, and `flow.ops` to call any operator.

    @flow.operator("row_max(x) -> y")
    class RowMax:
        '''The largest element of each row.'''
        types = lambda op: flow.TensorDesc(op.x.shape[:-1], op.x.dtype)
        kernel = flow.numpy_kernel(lambda x: x.max(axis=-1))

User operators are records like the built-in operators; slots that are left out are filled as far as the others allow.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from oneflow.dialect import elementwise as rows
from oneflow.dialect import meaning
from oneflow.dialect.decomposition_gradient import decomposition_gradient
from oneflow.dialect.deprecated import current_names
from oneflow.dialect.evaluate import evaluate
from oneflow.dialect.external import map_operands, run_kernel
from oneflow.dialect.numpy_builder import NumpyBuilder, describe_array
from oneflow.dialect.record import REGISTRY, Absent, Call, Operator, Registry, define, flatten, infer, suggestion
from oneflow.dialect.sbp import Factors
from oneflow.dialect.signature import Signature, SignatureError, parse_signature
from oneflow.dialect.user_rules import check_factors, check_slots, guard
from oneflow.frontend.core.dispatch import as_tensor, dispatch_all
from oneflow.frontend.core.errors import CallError
from oneflow.frontend.core.tensor import Tensor
from oneflow.runtime.user_ops.c_kernel import CKernel
from oneflow.runtime.user_ops.operations import operation_name
from oneflow.runtime.user_ops.triton_kernel import TritonKernel


def operator(
    signature: str, *, registry: Registry = REGISTRY, replace: bool = False, **options: Any
) -> Callable[[type], Operator]:
    """Registers the operator that a class defines: a decorator.

    Args:
        signature: its operands, attributes and results: `"clip(x, limit: float = 1.0) -> y"`.
        registry: where it is added.
        replace: whether it replaces an operator of this name that was defined elsewhere. A definition that runs
            again, and one in another cell of a notebook, replaces the operator in any case.
        options: slots that are not in the class, such as `pure=False`.

    The class has the slots as members: `types` (a function of the call, or the name of the operand whose type the
    result has), one meaning (`scalar`, `compute`, `decompose`, `kernel`), and if it has them `sbp` (a function, or
    text such as `"m k, k n -> m n"`), `grad` and `reference` (NumPy; else the meaning is).

    Raises:
        SignatureError: a slot is missing, unknown or not of its kind, or the name is taken.
    """

    def wrap(body: type) -> Operator:
        slots = {k: v for k, v in vars(body).items() if not k.startswith("__")} | options
        slots = current_names(SLOTS, slots)
        doc = inspect.getdoc(body) or f"A user's operator, {body.__name__}."
        filled = _with_defaults(signature, registry, slots)
        return define(signature, registry=registry, depth=2, replace=replace, doc=doc, **filled)

    return wrap


def elementwise(signature: str, *, replace: bool = False, **options: Any) -> Callable[[Callable[..., Any]], Operator]:
    """Registers the element-wise operator that a function of scalars defines: a decorator.

    Args:
        signature: its operands, attributes and result: `"softclip(x, limit: float = 1.0) -> y"`.
        replace: as for `operator`.
        options: as for `dialect.elementwise.elementwise`: `reference`, `allowed`, `result`, `linear`, slots.

    The function is the body, over one `flow.scalar` expression per operand, with attributes as keyword-only
    parameters. Types, SBP, gradient and kernels for every backend follow from it.

    Raises:
        SignatureError: the name is taken, or a slot is not of its kind.
    """

    def wrap(body: Callable[..., Any]) -> Operator:
        parsed = parse_signature(signature)
        name = parsed.name
        options.setdefault("reference", functools.partial(evaluate_meaning, options.get("registry", REGISTRY), name))
        doc = inspect.getdoc(body) or f"A user's operator, {name}."
        slots = current_names(SLOTS, options)
        scalar, slots = guard(name, "scalar", body), slots | _guarded(parsed, slots)
        return rows.elementwise(signature, doc, scalar=scalar, depth=2, replace=replace, **slots)

    return wrap


#: The scope of the names of slots.
SLOTS = "slot of an operator"
#: The reason that an operator without the slot grad has no gradient.
NO_GRADIENT = "its slot grad is not filled; give it grad = lambda ops, op, *cotangents: {operand: gradient}"


def _with_defaults(signature: str, registry: Registry, slots: dict[str, Any]) -> dict[str, Any]:
    """The slots with defaults for those left out, parsed text, and functions guarded so that their errors name the
    slot.
    """
    parsed = parse_signature(signature)
    slots.setdefault("sbp", Absent("sbp", "none was given"))
    if slots.get("decompose") is not None:
        slots.setdefault("grad", decomposition_gradient)
    slots.setdefault("grad", Absent("grad", NO_GRADIENT))
    slots.setdefault("reference", functools.partial(evaluate_meaning, registry, parsed.name))
    if isinstance(slots["sbp"], str):
        slots["sbp"] = Factors(slots["sbp"])
    launch = slots.pop("triton", slots.get("kernel"))
    if isinstance(launch, TritonKernel):
        slots["launch"] = launch
    elif launch is not slots.get("kernel"):
        raise SignatureError(
            f"operator {parsed.name}: the slot triton: expected flow.triton_kernel(..), got {launch!r}"
        )
    if isinstance(slots.get("types"), str):
        _check_factors_of_type(parsed, slots["types"], slots["sbp"])
        slots["types"] = _type_of(parsed, slots["types"])
    _check_kernel(parsed, slots.get("kernel"))
    if "launch" in slots:
        slots["launch"].check(parsed)
    return slots | _guarded(parsed, slots)


def _guarded(signature: Signature, slots: dict[str, Any]) -> dict[str, Any]:
    """The slots that are functions, guarded so that their errors name the slot.

    Raises:
        SignatureError: a slot is neither a function nor a value that is allowed there.
    """
    check_slots(signature.name, slots)
    guarded: dict[str, Any] = {}
    for slot in ("types", "sbp", "grad", "decompose", "compute", "scalar"):
        value = slots.get(slot)
        if isinstance(value, Factors):
            guarded[slot] = check_factors(signature, value)
        elif callable(value):
            guarded[slot] = guard(signature.name, slot, value)
        elif value and not isinstance(value, Absent):
            raise SignatureError(f"operator {signature.name}: the slot {slot}: expected a function, got {value!r}")
    return guarded


def _check_kernel(signature: Signature, kernel: Any) -> None:
    if kernel is not None and (inspect.isfunction(kernel) or not callable(kernel)):
        raise SignatureError(
            f"operator {signature.name}: the slot kernel: expected flow.numpy_kernel(function), flow.c_kernel(text) "
            f"or flow.triton_kernel(..), got {kernel!r}"
        )
    if isinstance(kernel, CKernel):
        kernel.check(signature)


def _check_factors_of_type(signature: Signature, operand: str, sbp: Any) -> None:
    """Checks that a result has as many factors as the operand whose type it has."""
    if not isinstance(sbp, Factors) or not all(a.is_single for a in (*signature.inputs, *signature.outputs)):
        return
    ins, outs = check_factors(signature, sbp).sides()
    factors = dict(zip([a.name for a in signature.inputs], ins, strict=True)).get(operand)
    if factors is not None and any(len(out) != len(factors) for out in outs):
        raise SignatureError(
            f"operator {signature.name}: the slot sbp: expected as many factors of a result as of {operand}, whose "
            f"type it has, got {sbp.text!r}"
        )


def _type_of(signature: Signature, operand: str) -> Callable[[Call], Any]:
    """The type rule by which the result has the type of an operand."""
    names = [a.name for a in signature.inputs]
    if operand not in names:
        raise SignatureError(
            f"operator {signature.name}: the slot types: expected an operand out of {', '.join(names)}, "
            f"got {operand!r}"
        )
    return lambda op: op[operand]


def evaluate_meaning(registry: Registry, name: str, /, *operands: Any, **attrs: Any) -> Any:
    """The results of an operator on arrays, computed by its meaning; the reference of operators without one."""
    record = registry[name]
    inputs = {a.name: x for a, x in zip(record.signature.inputs, operands, strict=True)}
    op = Call(record, inputs, attrs)
    if record.kernel is not None:
        return run_kernel(op)
    if record.decompose is not None:
        ops = NumpyBuilder(registry)
        results = record.decompose(ops, Call(record, map_operands(inputs, ops.wrap), attrs))
        return tuple(v.handle for v in (results if isinstance(results, (tuple, list)) else (results,)))
    described = Call(record, map_operands(inputs, lambda x: describe_array(np.asarray(x))), attrs)
    stages = meaning.stages(meaning.input_stages(described), infer(record, described))
    return tuple(evaluate(stages, flatten(inputs.values())))


class Operators:
    """Every operator as a function: `flow.ops.name(tensor, .., attribute=value)`.

    Operands are given in the order of the signature, None for a missing optional one, a list for a repeated one.
    Results are a tensor, or a tuple of them.
    """

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if operation_name(name) not in REGISTRY:
            raise AttributeError(f"flow.ops has no operator {name!r}{suggestion(name, REGISTRY.operators)}")
        record, scope = REGISTRY[operation_name(name)], f"argument of flow.ops.{name}"

        def call(*operands: Any, **attrs: Any) -> Any:
            attrs = current_names(scope, attrs)
            results = dispatch_all(record.name, *_operands(record, operands, attrs), **attrs)
            return results[0] if len(record.signature.outputs) == 1 and len(results) == 1 else results

        call.__name__, call.__doc__ = name, f"{record.signature}\n\n{record.doc}"
        return call

    def __dir__(self) -> list[str]:
        return sorted(REGISTRY.operators)


def _operands(record: Operator, operands: tuple[Any, ...], attrs: dict[str, Any]) -> list[Any]:
    """The operands in order; those given by name are removed from `attrs`."""
    names = [a.name for a in record.signature.inputs]
    if len(operands) > len(names):
        raise CallError(
            f"oneflow.{record.name}: expected operands {', '.join(names)} and attributes by name, "
            f"got {len(operands)} arguments"
        )
    named = [attrs.pop(name, None) for name in names[len(operands) :]]
    while named and named[-1] is None:
        named.pop()
    return [_tensors(x) for x in (*operands, *named)]


def _tensors(operand: Any) -> Any:
    if operand is None or isinstance(operand, Tensor):
        return operand
    if isinstance(operand, (tuple, list)):
        return [as_tensor(x) for x in operand]
    return as_tensor(operand)


#: `flow.ops`.
OPS = Operators()
