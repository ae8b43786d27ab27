"""`flow._C`: the functions of `flow` and `flow.ops`, and the functions that `functional_api.yaml` files declare,
which functors of C++ libraries compute.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oneflow.dialect.lazy import lazy
from oneflow.dialect.record import REGISTRY, OperatorError, suggestion
from oneflow.frontend import fft, functional, linalg, special
from oneflow.frontend.core.arrays import is_array
from oneflow.frontend.core.dispatch import TensorBuilder, as_tensor, current_builder
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.functional_c_functions import OWN, by_position
from oneflow.frontend.methods import inplace
from oneflow.runtime.user_ops.functional_api import (
    FunctionalApiError,
    FunctionEntry,
    FunctionSignature,
    read_functional_api,
)
from oneflow.runtime.user_ops.operations import operation_name

if TYPE_CHECKING:
    from oneflow.runtime.user_ops.functions import Argument

if TYPE_CHECKING:
    from oneflow.runtime.user_ops import functions
else:
    functions = lazy("oneflow.runtime.user_ops.functions")


class Functions:
    """A namespace of functions; `load` adds the functions of a file with `bind_python: True`."""

    def __init__(self) -> None:
        self._entries: dict[str, FunctionEntry] = {}
        self._unbound: dict[str, FunctionEntry] = {}

    def load(self, path: str | Path) -> None:
        """Adds the functions of a file; loading the same file again does nothing.

        Raises:
            FunctionalApiError: the file is malformed, or declares a function that another file declares.
        """
        all_entries = read_functional_api(path)
        entries = {e.name: e for e in all_entries if e.bind_python}
        for name, entry in entries.items():
            declared = self._entries.get(name)
            if declared is not None and declared.where != entry.where:
                raise FunctionalApiError(
                    f"{name} is declared twice: at {declared.where} and at {entry.where}; rename one"
                )
        self._entries.update(entries)
        self._unbound.update((e.name, e) for e in all_entries if not e.bind_python)

    def __getattr__(self, name: str) -> Any:
        entry = self._entries.get(name)
        if entry is None:
            own = None if name in self._unbound else _own_function(name)
            if own is not None:
                return own
            raise AttributeError(f"flow._C has no function {name!r}{self._advice(name)}")

        def function(*args: Any, **kwargs: Any) -> Any:
            return _call(entry, args, kwargs)

        function.__name__ = name
        function.__doc__ = "\n".join(map(str, entry.signatures))
        return function

    def _advice(self, name: str) -> str:
        """The remedy for an unknown name."""
        if name in self._unbound:
            return f": the declaration at {self._unbound[name].where} is for C++ only; write bind_python: True there"
        advice = suggestion(name, self._entries)
        return advice or "; load the file that declares it with flow.config.load_functional_api(path)"

    def __dir__(self) -> list[str]:
        return sorted(self._entries)


#: The functions of the process.
FUNCTIONS = Functions()


def _own_function(name: str) -> Callable[..., Any] | None:
    """The function of OneFlow's `_C` of a name, else the function of tensors, else the operator."""
    if name in OWN:
        return OWN[name]
    modules = (m for m in (functional, linalg, special, fft) if name in m.__all__)
    module = next(modules, None)
    function = inplace.FUNCTIONS.get(name) if module is None else getattr(module, name)
    if function is None and not name.startswith("__") and operation_name(name) in REGISTRY:
        function = by_position(REGISTRY[operation_name(name)])
    return function


def _call(entry: FunctionEntry, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    signature, arguments = entry.bind(args, kwargs, lambda x: isinstance(x, Tensor) or is_array(x))
    builder = current_builder()
    try:
        results = functions.call_function(builder, signature.functor, [_read(builder, a) for a in arguments])
    except OperatorError as error:
        raise fail(str(error), kind=error) from None
    return _as_signature_says(entry, signature, [builder.to_tensor(value) for value in results])


def _read(builder: TensorBuilder, argument: Argument) -> Argument:
    if argument.kind is not None or argument.value is None:
        return argument
    values = argument.value if isinstance(argument.value, tuple) else (argument.value,)
    return functions.Argument(None, tuple(builder.read(as_tensor(v)) for v in values))


def _as_signature_says(entry: FunctionEntry, signature: FunctionSignature, results: list[Tensor]) -> Any:
    """Results in the form of the signature: nothing, one tensor, or a tuple whose fields may have names."""
    if signature.returns == "Void":
        return None
    if signature.returns == "Tensor":
        return results[0]
    return namedtuple(entry.name, signature.fields)(*results) if signature.fields else tuple(results)
