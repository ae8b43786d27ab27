"""The types of functions and classes that loops make: `_functions.pyi`, `_tensor_types.pyi` and `special.pyi`, in
`src/oneflow`.

A type checker does not run the loops that give the functions of `flow` further names of parameters, `out` and forms
in place. The stubs have the signatures of these functions at run time.
"""

from __future__ import annotations

import builtins
import inspect
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from oneflow.frontend import functional, special
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.functional.aliasing import Alias, alias_of
from oneflow.frontend.functional.keyword_aliases import keyword_aliases
from oneflow.frontend.methods import inplace
from oneflow.frontend.methods.tensor_type import typed_tensors

#: A qualified name: its module, and the name.
QUALIFIED = re.compile(r"(?<!from )\b((?:oneflow|collections|typing)(?:\.[a-z_]\w*)*)\.(\w+)")
#: The import of a name that a stub declares.
DECLARED = re.compile(r"(?m)^from ([\w.]+) import (\w+) as \2$")


def functions() -> str:
    """Returns the text of _functions.pyi: the functional API and its forms in place."""
    lines = [line for name in functional.__all__ for line in declaration(name)]
    lines += [line for name in inplace.UPDATES for line in form_in_place(name)]
    return stub("The functions of `flow` and `flow.nn.functional`.", lines)


def tensor_types() -> str:
    """Returns the text of _tensor_types.pyi."""
    lines = [f"{name} = oneflow.frontend.core.tensor.Tensor" for name in typed_tensors("cpu")]
    return stub("The classes of tensors of one element type, of `flow` and `flow.cuda`.", lines)


def special_functions() -> str:
    """Returns the text of special.pyi."""
    lines = [line for name, function in special.NAMES.items() for line in declaration(function, name)]
    return stub("The functions of `flow.special`.", [*lines, *overloads("zeta", resolved(special.zeta), {})])


def stub(doc: str, lines: Iterable[str]) -> str:
    """Returns the text of a stub, with the imports of the qualified names in its lines."""
    text = "\n".join(lines) + "\n"
    for name in sorted(set(re.findall(r"(?m)^def (\w+)", text)) & vars(builtins).keys()):
        text = re.sub(rf"(?<=[:|] ){name}\b", f"builtins.{name}", text)  # the type, not the function
    declared = {name: module for module, name in DECLARED.findall(text)}
    names = sorted({*QUALIFIED.findall(text), ("typing", "Any"), ("typing", "overload")})
    imports = [f"from {module} import {name}" for module, name in names if declared.get(name) != module]
    header = f'"""{doc}\n\nGenerated from the functions by `docs/generate.py`.\n"""'
    return "\n".join([header, "", "import builtins", *imports, "", QUALIFIED.sub(r"\2", text)])


def declaration(of: str, name: str | None = None) -> Iterator[str]:
    """Yields the lines that declare a name of the functional API, under this or another name."""
    value = getattr(functional, of)
    if inspect.isroutine(value):
        yield from overloads(name or of, signature(of, value), keyword_aliases(of, value))
    elif inspect.isclass(value):
        yield f"from {value.__module__} import {of} as {of}"
    else:
        yield f"{of}: {type(value).__module__}.{type(value).__qualname__}"


def signature(name: str, function: Callable[..., Any]) -> inspect.Signature:
    """Returns the signature of a function of the functional API, with `out` where the function takes it."""
    found = resolved(function)
    if alias_of(name, function) is not Alias.COPY:
        return found
    parameters = list(found.parameters.values())
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        parameters.append(inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Any))
    return found.replace(parameters=parameters)


def resolved(function: Callable[..., Any]) -> inspect.Signature:
    """Returns a signature with types as annotations instead of their texts."""
    found = inspect.signature(function)
    scope = inspect.unwrap(function).__globals__

    def resolve(annotation: Any) -> Any:
        value = eval(annotation, scope) if isinstance(annotation, str) else annotation
        return Any if value is inspect.Parameter.empty else value

    parameters = [p.replace(annotation=resolve(p.annotation)) for p in found.parameters.values()]
    return found.replace(parameters=parameters, return_annotation=resolve(found.return_annotation))


def form_in_place(name: str) -> Iterator[str]:
    """Yields the lines that declare the form in place of a function: of a tensor, and the further arguments."""
    function = getattr(functional, name)
    first, *further = resolved(function).parameters.values()
    aliases = {alias: p for alias, p in keyword_aliases(name, function).items() if p != first.name}
    self = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY, annotation=Tensor)
    yield from overloads(f"{name}_", inspect.Signature([self, *further], return_annotation=Tensor), aliases)


def overloads(name: str, found: inspect.Signature, aliases: Mapping[str, str]) -> Iterator[str]:
    """Yields the declarations of a function: one for each choice of names of its parameters, and one for sizes that
    are given as `size`.
    """
    names: dict[str, list[str]] = {p: [p] for p in found.parameters}
    for alias, parameter in aliases.items():
        names[parameter].append(alias)
    texts = [text(found, choice) for choice in itertools.product(*names.values())]
    if any(p.kind is p.VAR_POSITIONAL and p.name == "size" for p in found.parameters.values()):
        texts.append(text(with_size(found), tuple(found.parameters)))
    for of_choice in texts:
        if len(texts) > 1:
            yield "@overload"
        yield f"def {name}{of_choice}: ..."


def with_size(found: inspect.Signature) -> inspect.Signature:
    """Returns the signature with a parameter `size` that is given by name, in place of `*size`."""
    by_name = inspect.Parameter("size", inspect.Parameter.KEYWORD_ONLY, annotation=Any)
    return found.replace(parameters=[by_name if p.name == "size" else p for p in found.parameters.values()])


def text(found: inspect.Signature, names: tuple[str, ...]) -> str:
    """Returns the text of a signature with these names of its parameters.

    A parameter with a further name, and all parameters after it, are given by name.
    """
    parameters, by_name = [], False
    for parameter, name in zip(found.parameters.values(), names, strict=True):
        by_name |= name != parameter.name
        if by_name and parameter.kind is parameter.VAR_POSITIONAL:
            continue
        is_positional = parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        kind = parameter.KEYWORD_ONLY if by_name and is_positional else parameter.kind
        default = ... if parameter.default is not parameter.empty else parameter.empty
        parameters.append(parameter.replace(name=name, kind=kind, default=default))
    return str(found.replace(parameters=parameters)).replace("Ellipsis", "...")
