"""Loads operator libraries of users; each operator becomes a record."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import oneflow.dialect.ops  # noqa: F401  (its operators are registered first)
from oneflow.dialect.attributes import KINDS
from oneflow.dialect.external import run_kernel
from oneflow.dialect.record import REGISTRY, Absent, Call, Operator, Registry, Rule, no_grad
from oneflow.dialect.signature import MANDATORY, ArgDef, AttrDef, Signature, SignatureError
from oneflow.runtime.user_ops import framework
from oneflow.runtime.user_ops.functions import class_gradient_rule
from oneflow.runtime.user_ops.gradient import gradient_rule
from oneflow.runtime.user_ops.marshal import decode_value, kind_of
from oneflow.runtime.user_ops.operations import DECLARED, count_attribute, operation_name
from oneflow.runtime.user_ops.rules import Counts, LibraryRules

_MARK = re.compile(rb"oneflow-sdk-version=(\d+);")
#: The size and time of each loaded file when it was loaded, by path.
_loaded: dict[Path, tuple[int, int]] = {}


class LibraryError(ValueError):
    """A library cannot be loaded, or its operators are malformed."""


def load_library(path: str | Path, registry: Registry = REGISTRY) -> list[Operator]:
    """Loads a library built with the SDK and registers its operators; returns their records.

    Loading a library again does nothing and returns no records.

    Raises:
        LibraryError: the library is missing, built with another SDK, lacks a symbol, or registers a malformed
            operator.
            None of its operators is registered then.
    """
    file = Path(path).resolve()
    state = _state(file)
    if file in _loaded:
        if _loaded[file] != state:
            raise LibraryError(f"cannot load {path}: the file has changed since it was loaded; start a new process")
        return []
    _check_version(file)
    described = framework.ask(
        "open", str(file).encode(), failure=lambda text: LibraryError(f"cannot load {path}: {text}")
    )
    records = _register(described, registry, file)
    _loaded[file] = state
    return records


def _state(file: Path) -> tuple[int, int]:
    try:
        status = file.stat()
    except OSError as error:
        raise LibraryError(f"cannot load {file}: {error.strerror}") from None
    return status.st_size, status.st_mtime_ns


def _check_version(file: Path) -> None:
    """Refuses a library of another SDK before any of its code runs."""
    found_versions = {int(v) for v in _MARK.findall(file.read_bytes())}
    if not found_versions:
        raise LibraryError(
            f"cannot load {file}: expected a library built with the SDK; include "
            '"oneflow/core/framework/framework.h" and compile with oneflow.sysconfig.get_compile_flags()'
        )
    if found_versions != {framework.version()}:
        versions = ", ".join(map(str, sorted(found_versions)))
        raise LibraryError(
            f"cannot load {file}: it was built with version {versions} of the SDK, this is version "
            f"{framework.version()}; compile it again with this oneflow.sysconfig.get_compile_flags()"
        )


def _register(described: Sequence[Mapping[str, Any]], registry: Registry, file: Path) -> list[Operator]:
    added, before = list[Operator](), dict(registry.operators)
    try:
        for description in described:
            added.append(_add(make_record(description, registry, file.stem), registry))
    except BaseException as error:  # after any failure: operators that stayed registered could not be loaded again
        registry.operators.clear()
        registry.operators.update(before)
        framework.ask("discard", failure=LibraryError)
        if isinstance(error, SignatureError):
            raise LibraryError(f"cannot load {file}: {error}") from None
        raise
    return added


def _add(record: Operator, registry: Registry) -> Operator:
    """Adds a record; the record may replace a declared record.

    Raises:
        SignatureError: the name is taken, or the declaration differs.
    """
    declared = registry.operators.get(record.name)
    if declared is not None and DECLARED in declared.traits:
        if declared.signature != record.signature:
            raise SignatureError(
                f"operator {record.name} is declared at {declared.where} as {declared.signature}, and registered at "
                f"{record.where} as {record.signature}"
            )
        del registry.operators[record.name]
    return registry.add(record)


def make_record(description: Mapping[str, Any], registry: Registry, family: str) -> Operator:
    """The record of an operator that the framework describes."""
    name = operation_name(description["name"])
    rules = LibraryRules(description["name"], _counts(description["inputs"]), _counts(description["outputs"]))
    return Operator(
        signature=_signature(description),
        doc=f"A user's operator, registered at {description['where']} as {description['name']}.",
        types=rules.types,
        sbp=rules.sbp,
        nd_sbp=_nd_sbp(description, rules),
        complexity=rules.complexity if description["has_complexity"] else None,
        grad=_gradient(description, rules),
        kernel=rules.kernel,
        device_kernel=None if description["cpu_only"] else rules.device_kernel,
        in_place=rules.in_place,
        reference=functools.partial(_reference, registry, name),
        traits=frozenset(["cpu_only"] if description["cpu_only"] else []),
        family=family,
        where=description["where"],
    )


def _nd_sbp(description: Mapping[str, Any], rules: LibraryRules) -> Rule | None:
    if description["has_nd_sbp_list"]:
        return rules.nd_sbp_list
    return rules.nd_sbp_infer if description["has_nd_sbp_infer"] else None


def _gradient(description: Mapping[str, Any], rules: LibraryRules) -> Rule | Absent:
    if description["has_grad"]:
        return gradient_rule(rules)
    if description["has_grad_function"]:
        return class_gradient_rule(rules)
    return no_grad("registered as NoGrad" if description["no_grad"] else "no REGISTER_USER_OP_GRAD in its library")


def _reference(registry: Registry, name: str, *operands: Any, **attrs: Any) -> Any:
    """The reference of an operator with a kernel is the kernel."""
    record = registry[name]
    inputs = {a.name: x for a, x in zip(record.signature.inputs, operands, strict=True)}
    return run_kernel(Call(record, inputs, attrs))


def _counts(args: Sequence[Mapping[str, Any]]) -> list[Counts]:
    return [Counts(a["name"], a["least"], None if a["most"] < 0 else a["most"], a["optional"]) for a in args]


def _signature(description: Mapping[str, Any]) -> Signature:
    inputs, outputs = _counts(description["inputs"]), _counts(description["outputs"])
    where = f"operator {description['name']} at {description['where']}"
    names = [part["name"] for part in (*description["inputs"], *description["outputs"], *description["attrs"])]
    _check_names(names, where)
    for name in (part["name"] for part in (*description["inputs"], *description["outputs"])):
        if name != name.lower():  # MLIR refuses the whole dialect if a name has capitals
            raise SignatureError(
                f"{where}: expected names without capitals for its inputs and outputs, got {name!r}; rename it to "
                f"{name.lower()!r}"
            )
    counting = [AttrDef(count_attribute(c.name), KINDS["int64"], c.default_count) for c in outputs if c.is_variable]
    for attr in counting:
        if attr.name in names:
            raise SignatureError(
                f"{where}: the attribute {attr.name} says how many tensors a result has, expected no other part of "
                "that name; rename one of the two"
            )
    attrs = (*(_attr(attr, where) for attr in description["attrs"]), *counting)
    return Signature(operation_name(description["name"]), tuple(map(_arg, inputs)), tuple(map(_arg, outputs)), attrs)


def _arg(counts: Counts) -> ArgDef:
    """The argument of a signature. A fixed number other than 1 is a variadic operand; the types rule checks its
    number.
    """
    return ArgDef(counts.name, counts.default_count, 1 if counts.max_count == 1 else None)


def _check_names(names: Sequence[str], where: str) -> None:
    for name in names:
        if not (name.isidentifier() and name.isascii()):  # MLIR allows no other letters
            raise SignatureError(
                f"{where}: expected names of the letters a to z, digits and underscores for its inputs, outputs and "
                f"attributes, got {name!r}"
            )


def _attr(attr: Mapping[str, Any], where: str) -> AttrDef:
    try:
        kind = kind_of(attr["type"])
        default = MANDATORY if attr["default"] is None else kind.check(decode_value(attr["default"]))
    except ValueError as error:
        raise SignatureError(f"{where}: the attribute {attr['name']}: {error}") from None
    return AttrDef(attr["name"], kind, default)
