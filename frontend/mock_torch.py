"""`flow.mock_torch`: programs that import PyTorch run with this project.

import oneflow.mock_torch as mock

mock.enable()
import torch                    # oneflow, under PyTorch's name

with mock.disable():
    import torch                # PyTorch
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["DummyModule", "disable", "enable", "is_enabled"]

#: Modules of PyTorch whose counterpart has another path.
_MOVED = {
    "torch.autograd.function": "oneflow.autograd",
    "torch.cuda.amp": "oneflow.amp",
    "torch.cuda.amp.autocast_mode": "oneflow.amp",
    "torch.cuda.amp.grad_scaler": "oneflow.amp",
    "torch.distributed": "oneflow.distributed",
    "torch.nn.modules": "oneflow.nn",
    "torch.nn.modules.activation": "oneflow.nn",
    "torch.nn.modules.batchnorm": "oneflow.nn",
    "torch.nn.modules.conv": "oneflow.nn",
    "torch.nn.modules.loss": "oneflow.nn",
    "torch.nn.modules.module": "oneflow.nn",
    "torch.nn.modules.utils": "oneflow.nn.utils",
    "torch.nn.parameter": "oneflow.nn",
    "torch.nn.utils.clip_grad": "oneflow.nn.utils",
    "torch.optim.adam": "oneflow.optim",
    "torch.optim.adamw": "oneflow.optim",
    "torch.optim.optimizer": "oneflow.optim",
    "torch.optim.sgd": "oneflow.optim",
    "torch.random": "oneflow",
    "torch.utils.checkpoint": "oneflow",
}


@dataclass
class _Settings:
    """The arguments of `enable`: the packages and their replacements, and the treatment of missing names."""

    packages: dict[str, str]
    lazy: bool
    verbose: bool
    version: str | None
    finder: _Finder = field(init=False)

    def __post_init__(self) -> None:
        self.finder = _Finder(self)

    def covers(self, name: str) -> bool:
        """Whether a module belongs to one of the packages."""
        return name.partition(".")[0] in self.packages

    def counterpart(self, name: str) -> Any:
        """The replacement of a module, None without a replacement."""
        root, _, rest = name.partition(".")
        path = _MOVED.get(name) or ".".join(filter(None, (self.packages[root], rest)))
        first, *parts = path.split(".")
        try:
            counterpart: Any = importlib.import_module(first)
        except ImportError:
            return None
        for number, part in enumerate(parts, 1):
            try:
                counterpart = getattr(counterpart, part)
            except AttributeError:
                try:
                    counterpart = importlib.import_module(".".join([first, *parts[:number]]))
                except ImportError:
                    return None
        return counterpart

    def replaced(self, name: str) -> str:
        """The name with the replacement of its package, such as oneflow.nn for torch.nn."""
        root, dot, rest = name.partition(".")
        return f"{self.packages[root]}{dot}{rest}"

    def missing(self, name: str) -> Any:
        """The placeholder for a name without counterpart.

        Raises:
            AttributeError: `lazy` was not asked for.
        """
        root = self.packages[name.partition(".")[0]]
        if not self.lazy:
            raise AttributeError(
                f"{name} has no counterpart in {root}; mock_torch.enable(lazy=True) "
                "puts an object in its place that fails when it is used"
            )
        placeholder = DummyModule(self.replaced(name))
        if self.verbose:
            sys.stdout.write(f"{placeholder.__name__} is not found in {root}: a placeholder replaces the name\n")
        return placeholder


class DummyModule(ModuleType):
    """The placeholder for a missing name with `lazy`: its attributes are placeholders too, nothing is an instance of
    it, and a loop over it ends at once; calls and `with` fail.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return DummyModule(f"{self.__name__}.{name}")

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"{self.__name__} does not exist")

    def __enter__(self) -> None:
        raise RuntimeError(f'"{self.__name__}" does not exist: a placeholder is no context of a "with" statement')

    def __exit__(self, *_: Any) -> None:
        """Is not reached: no placeholder is entered."""

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __instancecheck__(self, instance: Any) -> bool:
        return False

    def __subclasscheck__(self, subclass: Any) -> bool:
        return False

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        return ()

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<missing {self.__name__}>"


class Counterpart(ModuleType):
    """A module under PyTorch's name, with the attributes of its replacement."""

    def __init__(self, name: str, target: Any, settings: _Settings) -> None:
        super().__init__(name)
        package = settings.replaced(name)
        self.__dict__.update(__path__=[], __package__=package, _target=target, _settings=settings)

    def __getattr__(self, name: str) -> Any:
        settings, target = self.__dict__["_settings"], self.__dict__["_target"]
        if name == "__version__" and settings.version is not None:
            return settings.version
        if name == "__all__":
            return [n for n in dir(target) if not n.startswith("_")]
        path = f"{self.__name__}.{name}"
        if path not in _MOVED and hasattr(target, name):
            value = getattr(target, name)
        elif name.startswith("__"):
            raise AttributeError(name)
        else:
            value = settings.counterpart(path)
        if value is None and not hasattr(target, name):
            return settings.missing(path)
        return importlib.import_module(path) if isinstance(value, ModuleType) else value

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, (Counterpart, DummyModule)) or name.startswith("__"):
            super().__setattr__(name, value)  # the import system notes a submodule
        else:
            setattr(self.__dict__["_target"], name, value)

    def __dir__(self) -> list[str]:
        return dir(self.__dict__["_target"])


class _Finder(MetaPathFinder, Loader):
    """Finds the modules of the packages."""

    def __init__(self, settings: _Settings) -> None:
        self.settings = settings

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The specification of a module of the packages.

        Raises:
            ModuleNotFoundError: the module has no counterpart, and `lazy` is false.
        """
        if not self.settings.covers(fullname):
            return None
        if self.settings.counterpart(fullname) is None and not self.settings.lazy:
            raise ModuleNotFoundError(
                f"No module named {fullname!r}: the module has no counterpart in oneflow", name=fullname
            )
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module under its name."""
        counterpart = self.settings.counterpart(spec.name)
        return (
            Counterpart(spec.name, counterpart, self.settings)
            if counterpart is not None
            else self.settings.missing(spec.name)
        )

    def exec_module(self, module: ModuleType) -> None:
        """Does nothing: the replacement is loaded."""


@dataclass
class _Entry:
    """The modules that an `enable` (or with None as settings a `disable`) has removed from `sys.modules`, and the
    names of the caller's module, of which some refer to other modules now.
    """

    settings: _Settings | None
    aside: dict[str, ModuleType]
    namespace: dict[str, Any]
    replaced: dict[str, ModuleType] = field(default_factory=dict)

    def rebind(self, taken: Mapping[str, ModuleType]) -> None:
        """Has names of the namespace that refer to modules taken out refer to the modules imported in their place."""
        paths = {id(module): path for path, module in taken.items()}
        for name, value in list(self.namespace.items()):
            if isinstance(value, ModuleType) and id(value) in paths:
                with contextlib.suppress(ImportError):
                    self.namespace[name] = importlib.import_module(paths[id(value)])
                    self.replaced[name] = value


#: The entries in force, the latest one last.
_stack: list[_Entry] = []


def is_enabled() -> bool:
    """Whether PyTorch's name refers to this project."""
    return bool(_stack) and _stack[-1].settings is not None


def _enabling() -> _Entry | None:
    """The entry that has put PyTorch's modules aside: the first of the latest entries of `enable` in a row."""
    rest = itertools.dropwhile(lambda e: e.settings is None, reversed(_stack))
    latest = list(itertools.takewhile(lambda e: e.settings is not None, rest))
    return latest[-1] if latest else None


def _taken(settings: _Settings) -> dict[str, ModuleType]:
    """The modules of the packages, taken out of the imported modules."""
    return {name: sys.modules.pop(name) for name in [n for n in sys.modules if settings.covers(n)]}


def _enable(settings: _Settings, namespace: dict[str, Any]) -> None:
    if is_enabled():
        sys.meta_path.remove(_stack[-1].settings.finder)  # type: ignore[union-attr]
    entry = _Entry(settings, _taken(settings), namespace)
    _stack.append(entry)
    sys.meta_path.insert(0, settings.finder)
    entry.rebind(entry.aside)


def _disable(namespace: dict[str, Any]) -> None:
    """Brings back PyTorch's modules."""
    entry = _enabling()
    if entry is None or entry.settings is None:
        _stack.append(_Entry(None, {}, namespace))
        return
    if is_enabled():
        sys.meta_path.remove(_stack[-1].settings.finder)  # type: ignore[union-attr]
    disabled = _Entry(None, _taken(entry.settings), namespace)
    sys.modules.update(entry.aside)
    _stack.append(disabled)
    disabled.rebind(disabled.aside)


def _end() -> None:
    """Ends the latest entry: the modules that the entry has removed are restored."""
    entry = _stack.pop()
    enclosing = _enabling()
    if entry.settings is not None:
        sys.meta_path.remove(entry.settings.finder)
        _taken(entry.settings)
    elif enclosing is not None and enclosing.settings is not None:
        enclosing.aside = _taken(enclosing.settings)
    sys.modules.update(entry.aside)
    if is_enabled():
        sys.meta_path.insert(0, _stack[-1].settings.finder)  # type: ignore[union-attr]
    entry.namespace.update(entry.replaced)


class enable:  # noqa: N801 (OneFlow's name)
    """From here on, or within a `with`, `import torch` imports this project under PyTorch's name, unless the variable
    ONEFLOW_DISABLE_MOCK_TORCH of the environment is 1. Names of the caller's module that already refer to modules of
    PyTorch refer to their replacements.

    Args:
        lazy: whether a missing name is a placeholder that fails at its use, instead of an error.
        verbose: whether missing names are printed, with `lazy`.
        extra_dict: further packages and their replacements, such as {"torchvision": "flowvision"}.
        mock_version: the value of `torch.__version__`; by default the version of this project.

    Raises:
        ValueError: `extra_dict` is no dictionary of names.
    """

    def __init__(
        self,
        lazy: bool | None = None,
        verbose: bool | None = None,
        extra_dict: Mapping[str, str] | None = None,
        *,
        main_pkg: str | None = None,
        mock_version: str | None = None,
        required_dependencies: Sequence[str] = (),
    ) -> None:
        if extra_dict is not None and not isinstance(extra_dict, Mapping):
            raise ValueError(f"expected extra_dict to be a dictionary of names of packages, got {extra_dict!r}")
        packages = {"torch": "oneflow", **(extra_dict or {})}
        if os.environ.get("ONEFLOW_DISABLE_MOCK_TORCH") == "1":
            packages = {}
        _enable(_Settings(packages, bool(lazy), bool(verbose), mock_version), sys._getframe(1).f_globals)

    def __enter__(self) -> enable:
        return self

    def __exit__(self, *_: Any) -> None:
        _end()


class disable:  # noqa: N801 (OneFlow's name)
    """From here on, or within a `with`, `import torch` imports PyTorch again, and names of the caller's module that
    refer to replacements refer to modules of PyTorch.
    """

    def __init__(self) -> None:
        _disable(sys._getframe(1).f_globals)

    def __enter__(self) -> disable:
        return self

    def __exit__(self, *_: Any) -> None:
        _end()
