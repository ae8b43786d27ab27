"""The kinds of attributes that programs have on modules, functions, arguments and results.

MLIR accepts any attribute there. The passes that read these attributes rely on the kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from oneflow.dialect._mlir import ir


@dataclass(frozen=True)
class _Kind:
    """A kind of attribute: a description for messages, and the test of an attribute."""

    description: str
    holds: Callable[[ir.Attribute], bool]


def _is_text(attribute: ir.Attribute) -> bool:
    return isinstance(attribute, ir.StringAttr)


_TEXT = _Kind("a string", _is_text)
_TEXTS = _Kind("a list of strings", lambda a: isinstance(a, ir.ArrayAttr) and all(map(_is_text, a)))
_KINDS: Mapping[str, _Kind] = {
    "oneflow.kernel": _TEXT,
    "oneflow.name": _TEXT,
    "oneflow.placement": _TEXT,
    "oneflow.precision": _TEXT,
    "oneflow.sites": _TEXTS,
    "oneflow.template": _TEXT,
}


def report_attributes(module: ir.Module) -> bool:
    """Emits an error for each attribute of another kind; whether there is none."""
    holders = [module.operation, *(op.operation for op in module.body.operations)]
    wrong = [(op, message) for op in holders for message in _problems(op)]
    for op, message in wrong:
        op.location.emit_error(message)
    return not wrong


def _problems(op: ir.Operation) -> Iterator[str]:
    attributes = op.attributes
    yield from _wrong("", {name: attributes[name] for name in attributes if name in _KINDS})
    for side, what in (("arg_attrs", "argument"), ("res_attrs", "result")):
        for index, own in enumerate(attributes.get(side, ())):
            yield from _wrong(f" of {what} {index}", {n.name: n.attr for n in ir.DictAttr(own) if n.name in _KINDS})


def _wrong(of: str, attributes: Mapping[str, ir.Attribute]) -> Iterator[str]:
    for name, attribute in attributes.items():
        kind = _KINDS[name]
        if not kind.holds(attribute):
            yield f"expected {name}{of} to be {kind.description}, got {attribute}"
