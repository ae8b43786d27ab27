"""Modules: trees of layers that hold parameters and buffers, under PyTorch's names.

A module is called like a function, in eager mode or while a function is traced; a compiled function that uses a
module reads the parameters as inputs at every run.
"""

from __future__ import annotations

import functools
import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ParamSpec, TypeVar

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType
from oneflow.dialect.nd_sbp import broadcast
from oneflow.frontend.core.arrays import is_expanded
from oneflow.frontend.core.devices import Device
from oneflow.frontend.core.dispatch import Stateful, current_builder
from oneflow.frontend.core.hooks import Handle, Hook, Hooks
from oneflow.frontend.core.mode import tracing
from oneflow.frontend.eager.module_state import IncompatibleKeys, compare_names, convert, load_values
from oneflow.frontend.eager.tape import no_grad
from oneflow.frontend.eager.tensor import EagerTensor, wrapped
from oneflow.frontend.global_tensor import to_global
from oneflow.frontend.nn.graph_module import GraphModule
from oneflow.frontend.nn.hooks import ModuleHooks
from oneflow.frontend.tracing.callables import simple_attributes
from oneflow.runtime.global_array import Placement

Self = TypeVar("Self", bound="Module")


class Parameter(EagerTensor):
    """A tensor that a module learns: a leaf that requires grad by default.

    Args:
        data: a tensor or array of values, whose memory the parameter shares; a large expanded tensor is copied.
        requires_grad: whether its gradient is accumulated.
    """

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        source = data if isinstance(data, EagerTensor) else wrapped(data)
        super().__init__(source.variable.alias())
        if is_expanded(self.handle.handle):
            self.handle.move(self.handle.handle.copy())
        self.requires_grad_(requires_grad)


P = ParamSpec("P")


def takes_device(init: Callable[P, None]) -> Callable[P, None]:
    """A decorator of the `__init__` of a layer with a parameter `device`: the layer is moved to the device."""

    @functools.wraps(init)
    def init_on_device(*args: P.args, **kwargs: P.kwargs) -> None:
        device = kwargs.pop("device", None)
        init(*args, **kwargs)
        if device is not None:
            module: Any = args[0]
            module.to(device)

    return init_on_device


class SignatureOf:
    """The signature of the method `name` for instances, the signature of `__init__` for the class."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> inspect.Signature:
        return self.of_class(owner) if instance is None else inspect.signature(getattr(instance, self.name))

    def of_class(self, owner: Any) -> inspect.Signature:
        """The signature of a class."""
        plain = inspect.signature(owner.__init__)
        return plain.replace(parameters=list(plain.parameters.values())[1:])


class Module(Stateful):
    """The base of every layer: `forward` defines the computation.

    Parameters, modules and buffers (`register_buffer`) have the names of their attributes.
    """

    def __init__(self) -> None:
        for name in ("_parameters", "_buffers", "_modules"):
            object.__setattr__(self, name, OrderedDict())
        object.__setattr__(self, "_transient", set())
        object.__setattr__(self, "_training", True)
        object.__setattr__(self, "_hooks", None)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The computation of the module."""
        raise NotImplementedError(f"expected {type(self).__name__} to have a method forward")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        builder = current_builder()
        if not builder.eager:
            builder.watch_hooks(self._hook_changes)
            builder.watch(self)
        hooks: ModuleHooks | None = self._hooks
        return self.forward(*args, **kwargs) if hooks is None else hooks.call(self, args, kwargs)

    def facts(self) -> dict[Any, Any]:
        """The settings, and the names of parameters, buffers and modules; `training` is queried separately."""
        parts = {(name,): value for table in self._tables() for name, value in table.items()}
        return {k: v for k, v in simple_attributes(self).items() if k != "_training"} | parts

    def _hook_changes(self) -> int:
        return 0 if self._hooks is None else self._hooks.version

    def _module_hooks(self) -> ModuleHooks:
        if self._hooks is None:
            object.__setattr__(self, "_hooks", ModuleHooks())
        hooks: ModuleHooks = self._hooks
        return hooks

    def _graph_options(self) -> GraphModule:
        hooks = self._module_hooks()
        hooks.options = hooks.options or GraphModule(self)
        return hooks.options

    def register_forward_pre_hook(self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False) -> Handle:
        """Registers `hook(module, args)`, called before `forward`; a result other than None replaces the arguments.

        `with_kwargs`: `hook(module, args, kwargs)`, which may return both.
        """
        return self._module_hooks().before.add(hook, prepend=prepend, with_kwargs=with_kwargs)

    def register_forward_hook(self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False) -> Handle:
        """Registers `hook(module, args, result)`, called after `forward`; a result other than None replaces the
        result.

        `with_kwargs`: `hook(module, args, kwargs, result)`.
        """
        return self._module_hooks().after.add(hook, prepend=prepend, with_kwargs=with_kwargs)

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> Handle:
        """Has `hook(module, grad_input, grad_output)` called when the gradients of the arguments are known.

        `grad_input` and `grad_output` are tuples, None for values without gradient; a result other than None replaces
        `grad_input`. For eager mode.
        """
        return self._module_hooks().backward.add(hook, prepend=prepend)

    register_backward_hook = register_full_backward_hook

    def register_state_dict_pre_hook(self, hook: Hook) -> Handle:
        """Has `hook(module, prefix, keep_vars)` called before `state_dict` reads the module."""
        return self._module_hooks().reading.add(hook)

    __signature__ = SignatureOf("forward")

    @property
    def training(self) -> bool:
        """Whether the module is in training mode, which is a guard of compiled functions."""
        mode: bool = current_builder().guard(getattr, self, "_training")
        return mode

    def _tables(self) -> tuple[dict[str, Any], ...]:
        """Parameters, buffers and modules by name."""
        own = self.__dict__
        if "_modules" not in own:
            raise AttributeError(f"expected {type(self).__name__}.__init__ to call super().__init__() first")
        return own["_parameters"], own["_buffers"], own["_modules"]

    def __setattr__(self, name: str, value: Any) -> None:
        parameters, buffers, modules = self._tables()
        Hooks.invalidate_guards()
        if isinstance(value, Parameter):
            self._set_in_table(parameters, name, value)
        elif isinstance(value, Module):
            self._set_in_table(modules, name, value)
        elif name in buffers and (value is None or isinstance(value, EagerTensor)):
            buffers[name] = value
        elif name in parameters and value is None:
            parameters[name] = None
        else:
            for table in self._tables():
                table.pop(name, None)
            object.__setattr__(self, name, value)

    def _set_in_table(self, table: dict[str, Any], name: str, value: Any) -> None:
        for other in (*self._tables(), self.__dict__):
            if other is not table:
                other.pop(name, None)
        table[name] = value
        Hooks.invalidate_guards()

    def __getattr__(self, name: str) -> Any:
        for table in self._tables():
            if name in table:
                if tracing():
                    self._watched(table[name])
                return table[name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def _watched(self, part: Any) -> None:
        """Guards the program on this module and a part of this module."""
        for owner in (self, part):
            if isinstance(owner, Module):
                current_builder().watch(owner)

    def __delattr__(self, name: str) -> None:
        Hooks.invalidate_guards()
        for table in self._tables():
            if name in table:
                del table[name]
                return
        object.__delattr__(self, name)

    def register_parameter(self, name: str, parameter: Parameter | None) -> None:
        """Adds a parameter; None declares a parameter that is absent."""
        self._set_in_table(self._tables()[0], name, parameter)

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Adds a tensor that is part of the state but is not learned; a `persistent` buffer is in `state_dict`."""
        self._set_in_table(self._tables()[1], name, tensor)
        (self._transient.discard if persistent else self._transient.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Adds a module under a name."""
        self._set_in_table(self._tables()[2], name, module)

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """The module and all its descendants, each once, with their dotted names."""
        yield from self._walk(prefix, set())

    def _walk(self, prefix: str, visited: set[int]) -> Iterator[tuple[str, Module]]:
        if id(self) in visited:
            return
        visited.add(id(self))
        yield prefix, self
        for name, module in self.named_children():
            yield from module._walk(f"{prefix}.{name}" if prefix else name, visited)

    def modules(self) -> Iterator[Module]:
        """The module and all its descendants, each once."""
        return (m for _, m in self.named_modules())

    def get_submodule(self, target: str) -> Module:
        """The module of a dotted name.

        Raises:
            AttributeError: there is no such module.
        """
        module = self
        for name in filter(None, target.split(".")):
            module = getattr(module, name)
        if not isinstance(module, Module):
            raise AttributeError(f"{type(self).__name__}: expected {target} to be a module, got {module!r}")
        return module

    def get_parameter(self, target: str) -> Parameter:
        """The parameter of a dotted name.

        Raises:
            AttributeError: there is no such parameter.
        """
        parameter = dict(self.named_parameters()).get(target)
        if parameter is None:
            raise AttributeError(f"{type(self).__name__} has no parameter {target}")
        return parameter

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly below."""
        return ((n, m) for n, m in self._tables()[2].items() if m is not None)

    def children(self) -> Iterator[Module]:
        """The modules directly below."""
        return (m for _, m in self.named_children())

    def _named(self, which: int, prefix: str, recurse: bool) -> Iterator[tuple[str, Any]]:
        """Parameters (0) or buffers (1), each once."""
        visited: set[int] = set()
        for path, module in self.named_modules(prefix) if recurse else [(prefix, self)]:
            for name, value in module._tables()[which].items():
                if value is not None and id(value) not in visited:
                    visited.add(id(value))
                    yield (f"{path}.{name}" if path else name), value

    def named_parameters(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Parameter]]:
        """The parameters with their dotted names, each once."""
        return self._named(0, prefix, recurse)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, each once."""
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, EagerTensor]]:
        """The buffers with their dotted names, each once."""
        return self._named(1, prefix, recurse)

    def buffers(self, recurse: bool = True) -> Iterator[EagerTensor]:
        """The buffers, each once."""
        return (b for _, b in self.named_buffers(recurse=recurse))

    def state_dict(self, prefix: str = "") -> dict[str, EagerTensor]:
        """Parameters and persistent buffers under PyTorch's names, in the same memory, without gradients."""
        for hook in () if self._hooks is None else self._hooks.reading:
            hook.function(self, prefix, False)
        state: dict[str, EagerTensor] = OrderedDict()
        for table, skipped in ((self._tables()[0], ()), (self._tables()[1], self._transient)):
            kept = {n: v for n, v in table.items() if v is not None and n not in skipped}
            state |= {prefix + n: EagerTensor(v.variable.alias()) for n, v in kept.items()}
        for name, module in self.named_children():
            state |= module.state_dict(f"{prefix}{name}.")
        return state

    def load_state_dict(
        self, state: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copies values into the parameters and buffers of the same names; the missing and the unexpected names.

        With `assign` the tensors adopt the memory, the element types and the devices of the values.

        Raises:
            RuntimeError: a shape differs, or, if `strict`, a name is missing or unexpected.
        """
        unmatched = compare_names(type(self).__name__, self.state_dict(), state, strict)
        with no_grad():
            for name, tensor in self._stored().items():
                if name in state:
                    load_values(tensor, state[name], assign)
        return unmatched

    def _stored(self) -> dict[str, EagerTensor]:
        """The tensors themselves by the names of `state_dict`, shared tensors under each of their names."""
        return {
            (f"{path}.{name}" if path else name): value
            for path, module in self._paths("")
            for table in module._tables()[:2]
            for name, value in table.items()
            if value is not None
        }

    def _paths(self, prefix: str) -> Iterator[tuple[str, Module]]:
        yield prefix, self
        for name, module in self.named_children():
            yield from module._paths(f"{prefix}.{name}" if prefix else name)

    def apply(self: Self, function: Callable[[Module], Any]) -> Self:
        """Calls a function with every descendant and then with the module; returns the module."""
        for module in self.children():
            module.apply(function)
        function(self)
        return self

    def train(self: Self, mode: bool = True) -> Self:
        """Sets training mode for the module and its descendants, for dropout and batch norm; returns the module."""
        for module in self.modules():
            object.__setattr__(module, "_training", mode)
        return self

    def eval(self: Self) -> Self:
        """Sets evaluation mode; returns the module."""
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Has the gradients of all parameters accumulated, or not; returns the module."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Removes the gradients of all parameters, or sets the gradients to zero."""
        for parameter in self.parameters():
            if set_to_none or parameter.grad is None:
                parameter.grad = None
            else:
                parameter.grad.zero_()

    def to(self: Self, *target: Any, dtype: DType | None = None, device: Any = None) -> Self:
        """Converts parameters and buffers of floats to an element type, moves all to a device, or both; returns the
        module. With `nn.graph.GraphModule` the options of the module in a graph; with a class of the module itself.

        Raises:
            CudaError: the device does not exist.
            TypeError: a target is neither a type of floats nor a device.
        """
        if target == (GraphModule,):
            return self._graph_options()  # type: ignore[return-value]
        if len(target) == 1 and isinstance(target[0], type) and isinstance(self, target[0]):
            return self
        for wanted in (*target, *(x for x in (dtype, device) if x is not None)):
            if not isinstance(wanted, (str, Device)) and not (isinstance(wanted, DType) and wanted.is_float):
                raise TypeError(f"expected a type of floats such as flow.float64, or a device, got {wanted!r}")
            for tensor in (*self.parameters(), *self.buffers()):
                convert(tensor, wanted)
        return self

    def cuda(self: Self, index: int = 0) -> Self:
        """Moves the module to a CUDA device."""
        return self.to(Device("cuda", index))

    def cpu(self: Self) -> Self:
        """Moves the module to the host."""
        return self.to(Device("cpu"))

    def to_global(self: Self, placement: Placement, sbp: Any) -> Self:
        """Moves parameters and buffers to the ranks of a placement; returns the module. All ranks receive the values
        of rank 0.

        Args:
            placement: the ranks.
            sbp: one SBP, or one for each axis of the mesh; or a dict of these by dotted names, the others whole.
        """
        named = sbp if isinstance(sbp, Mapping) else None
        replicated = broadcast(placement.mesh)
        tensors = dict((*self.named_parameters(), *self.named_buffers()))
        if named is not None and (unknown := named.keys() - tensors.keys()):
            raise ValueError(
                f"{type(self).__name__} has no {', '.join(sorted(unknown))}; it has {', '.join(tensors)}"
            )
        for name, tensor in tensors.items():
            placed = to_global(tensor, placement, sbp if named is None else named.get(name, replicated))
            assert isinstance(placed, EagerTensor)
            tensor.data = placed
        return self

    def half(self: Self) -> Self:
        """Converts to float16."""
        return self.to(dtypes.float16)

    def bfloat16(self: Self) -> Self:
        """Converts to bfloat16."""
        return self.to(dtypes.bfloat16)

    def float(self: Self) -> Self:
        """Converts to float32."""
        return self.to(dtypes.float32)

    def double(self: Self) -> Self:
        """Converts to float64."""
        return self.to(dtypes.float64)

    def extra_repr(self) -> str:
        """The text between the brackets of the representation."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr().splitlines()
        lines = extra + [f"({n}): {m!r}".replace("\n", "\n  ") for n, m in self.named_children()]
        inner = "".join(extra) if len(extra) == len(lines) < 2 else "\n  " + "\n  ".join(lines) + "\n"
        return f"{type(self).__name__}({inner})"


def stage_of(module: Module) -> int | None:
    """The index of the stage of a pipeline that a module is; None for none."""
    options = None if module._hooks is None else module._hooks.options
    return None if options is None else options.stage_id
