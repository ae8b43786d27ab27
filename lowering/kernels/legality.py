"""Legality checks: operations that a pass refuses, since an earlier stage must lower these first."""

from __future__ import annotations

from collections.abc import Collection

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.scalar_storage import is_scalar
from oneflow.lowering.linalg.checks import CHECK_INDEX, CHECK_SIZE
from oneflow.lowering.linalg.control import PREFIX as CONTROL
from oneflow.lowering.linalg.external import PREFIX as EXTERNAL
from oneflow.passes.base import PassError
from oneflow.passes.inline import body_of, functions_of
from oneflow.passes.walk import gather

#: The functions of run-time checks.
CHECKS = (CHECK_INDEX, CHECK_SIZE)
#: Operations without a lowering, and the remedy.
UNSUPPORTED = {
    "math.ipowi": "write math.fpowi or oneflow.pow",
    "cf.assert": "run convert-oneflow-to-linalg first",
}


def callable_names(module: ir.Module) -> set[str]:
    """The functions that an entry may call: functions with bodies, external kernels, control flow, checks."""
    functions, known = functions_of(module), (EXTERNAL, CONTROL, *CHECKS)
    return {n for n, op in functions.items() if n.startswith(known) or len(op.regions[0].blocks)}


def check_is_linalg(function: ir.Operation, callable_functions: Collection[str]) -> None:
    """Checks that a function is linalg on tensors, as required for kernels and a plan.

    `callable_functions` are the functions that the function may call.

    Raises:
        PassError: names the first operation that is not legal, and the pass to run before.
    """
    for argument in body_of(function).arguments:
        if not isinstance(argument.type, ir.RankedTensorType):
            raise PassError(f"expected ranked tensors as arguments, got {argument.type}", argument.location)
    _reject_prefixes(function, ("oneflow.",), "expected linalg on tensors", "convert-oneflow-to-linalg")
    for op in function.regions[0].blocks[0].operations:
        _check_result_types(op.operation)
        _check_callee(op.operation, callable_functions)
    _check_has_lowering(function)


def _check_result_types(op: ir.Operation) -> None:
    """Checks that the values between operations of an entry are tensors or scalars."""
    for value in op.results:
        if not isinstance(value.type, ir.RankedTensorType) and not is_scalar(value.type):
            what = "expected ranked tensors and scalars between operations"
            raise PassError(f"{op.name}: {what}, got {value.type}", op.location)


def _check_callee(op: ir.Operation, callable_functions: Collection[str]) -> None:
    """Checks that a called function has a body or is known to the runtime."""
    if (
        op.name == "func.call"
        and (name := ir.FlatSymbolRefAttr(op.attributes["callee"]).value) not in callable_functions
    ):
        raise PassError(f"expected a function with a body to call, but @{name} is only declared", op.location)


def _check_has_lowering(function: ir.Operation) -> None:
    """Checks that every operation has a lowering."""
    for op in gather(function, lambda op: op.name in UNSUPPORTED)[:1]:
        raise PassError(f"{op.name}: expected an operation with a lowering; {UNSUPPORTED[op.name]}", op.location)


def check_kernels_formed(entry: ir.Operation) -> None:
    """Checks that an entry only has kernel calls, views and sizes.

    Raises:
        PassError: an operation of the entry belongs in a kernel.
    """
    passes = "convert-oneflow-to-linalg and oneflow-form-kernels"
    _reject_prefixes(entry, ("oneflow.", "linalg."), "expected kernels, views and sizes in the entry", passes)


def _reject_prefixes(function: ir.Operation, prefixes: tuple[str, ...], expected: str, passes: str) -> None:
    """Refuses operations whose names have one of the prefixes."""
    for op in function.regions[0].blocks[0].operations:
        name = op.operation.name
        if name.startswith(prefixes):
            raise PassError(f"{expected}, got {name}: run {passes} first", op.operation.location)
