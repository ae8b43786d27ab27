"""Modules that hold modules or parameters, as lists and dicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.frontend.nn.module import Module, Parameter


class ModuleList(Module):
    """Modules in order, under the names "0", "1", ..."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        self.extend(modules)

    def append(self, module: Module) -> ModuleList:
        """Adds a module at the end; returns the container."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        """Adds modules at the end; returns the container."""
        for module in modules:
            self.append(module)
        return self

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(list(self._modules.values()))

    def __getitem__(self, index: int | slice) -> Any:
        items = list(self._modules.values())
        return type(self)(items[index]) if isinstance(index, slice) else items[index]

    def __setitem__(self, index: int, module: Module) -> None:
        self.add_module(str(range(len(self))[index]), module)


class Sequential(ModuleList):
    """Modules that are called one after the other: given one by one, or as an ordered dict under names."""

    def __init__(self, *modules: Any) -> None:
        Module.__init__(self)
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            for name, module in modules[0].items():
                self.add_module(name, module)
        else:
            self.extend(modules)

    def __getitem__(self, index: int | slice) -> Any:
        items = list(self._modules.values())
        return Sequential(*items[index]) if isinstance(index, slice) else items[index]

    def forward(self, x: Any) -> Any:
        """The last module's result."""
        for module in self:
            x = module(x)
        return x


class ModuleDict(Module):
    """Modules under names: a mapping, or pairs of a name and a module."""

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        super().__init__()
        for name, module in dict(modules or {}).items():
            self.add_module(name, module)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._modules))

    def __contains__(self, name: str) -> bool:
        return name in self._modules

    def __getitem__(self, name: str) -> Module:
        module: Module = self._modules[name]
        return module

    def __setitem__(self, name: str, module: Module) -> None:
        self.add_module(name, module)

    def items(self) -> Iterator[tuple[str, Module]]:
        """Names and modules."""
        return iter(list(self._modules.items()))

    def keys(self) -> Iterator[str]:
        """The names."""
        return iter(self)

    def values(self) -> Iterator[Module]:
        """The modules."""
        return iter(list(self._modules.values()))


class _Parameters(Module):
    """The base of containers of parameters."""

    def extra_repr(self) -> str:
        """The parameters' names and sizes."""
        sizes = ((name, "x".join(map(str, p.shape))) for name, p in self._parameters.items())
        kind = "<class 'oneflow.nn.Parameter'>"
        return "\n".join(f"({name}): Parameter containing: [{kind} of size {size}]" for name, size in sizes)


class ParameterList(_Parameters):
    """Parameters in order, under the names "0", "1", ...; other tensors become parameters."""

    def __init__(self, values: Iterable[Any] = ()) -> None:
        super().__init__()
        self.extend(values)

    def append(self, value: Any) -> ParameterList:
        """Adds a parameter at the end; returns the container."""
        self.register_parameter(str(len(self)), _parameter(value))
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Adds parameters at the end; returns the container."""
        for value in values:
            self.append(value)
        return self

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._parameters.values()))

    def __getitem__(self, index: int | slice) -> Any:
        items = list(self._parameters.values())
        return ParameterList(items[index]) if isinstance(index, slice) else items[index]

    def __setitem__(self, index: int, value: Any) -> None:
        self.register_parameter(str(range(len(self))[index]), _parameter(value))


class ParameterDict(_Parameters):
    """Parameters under names; other tensors become parameters."""

    def __init__(self, parameters: Mapping[str, Any] | Iterable[tuple[str, Any]] | None = None) -> None:
        super().__init__()
        self.update(parameters or {})

    def update(self, parameters: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
        """Adds parameters, a mapping or pairs, or replaces parameters of the same names."""
        for name, value in dict(parameters).items():
            self[name] = value

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._parameters))

    def __contains__(self, name: str) -> bool:
        return name in self._parameters

    def __getitem__(self, name: str) -> Any:
        return self._parameters[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.register_parameter(name, _parameter(value))

    def __delitem__(self, name: str) -> None:
        delattr(self, name)

    def items(self) -> Iterator[tuple[str, Any]]:
        """Names and parameters."""
        return iter(list(self._parameters.items()))

    def keys(self) -> Iterator[str]:
        """The names."""
        return iter(self)

    def values(self) -> Iterator[Any]:
        """The parameters."""
        return iter(list(self._parameters.values()))


def _parameter(value: Any) -> Parameter:
    return Parameter(value.detach()) if isinstance(value, EagerTensor) and not isinstance(value, Parameter) else value
