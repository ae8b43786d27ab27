"""Functions that run when a module is called and when gradients flow back through the module.

    handle = layer.register_forward_hook(lambda module, args, result: print(result.shape))

Hooks become part of a traced function, hooks on gradients part of its gradient.
"""

from __future__ import annotations

from typing import Any

from oneflow.frontend.core.dispatch import current_builder
from oneflow.frontend.core.errors import refuse
from oneflow.frontend.core.hooks import Hooks
from oneflow.frontend.core.pytree import flatten
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.function import Function
from oneflow.frontend.eager.tape import MODE
from oneflow.frontend.functional import zeros_like
from oneflow.frontend.nn.graph_module import GraphModule


class ModuleHooks:
    """The hooks of one module: before `forward`, after `forward`, on gradients, and before `state_dict`.

    `options` are the options of the module in a graph.
    """

    def __init__(self) -> None:
        self.before, self.after, self.backward, self.reading = Hooks(), Hooks(), Hooks(), Hooks()
        self.options: GraphModule | None = None

    @property
    def version(self) -> int:
        """The number of changes of the hooks and options."""
        options = 0 if self.options is None else self.options.version
        return self.before.version + self.after.version + self.backward.version + options

    def call(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a module, with its hooks."""
        args, kwargs = self._prepared(module, args, kwargs)
        hooked = None
        if self.backward and MODE.recording:
            hooked = HookedCall(module, self.backward)
            args = hooked.watch_arguments(args)
        result = (self.options or module).forward(*args, **kwargs)
        for hook in self.after:
            arguments = (args, kwargs) if hook.with_kwargs else (args,)
            changed = hook.function(module, *arguments, result)
            result = result if changed is None else changed
        return result if hooked is None else hooked.watch_results(result)

    def _prepared(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The arguments after the hooks that run before `forward`."""
        for hook in self.before:
            changed = hook.function(module, args, kwargs) if hook.with_kwargs else hook.function(module, args)
            if changed is None:
                continue
            if not hook.with_kwargs:
                args = changed if isinstance(changed, tuple) else (changed,)
            elif isinstance(changed, tuple) and len(changed) == 2:
                args, kwargs = changed
            else:
                raise refuse(f"expected a forward_pre_hook with_kwargs to return (args, kwargs), got {changed!r}")
        return args, kwargs


class HookedCall:
    """A call of a module with hooks on the gradients of its results and of its arguments."""

    def __init__(self, module: Any, hooks: Hooks) -> None:
        self.module, self.hooks = module, hooks
        self.args: tuple[Any, ...] = ()
        self.has_argument_gradients = False
        self.grad_outputs: tuple[Any, ...] = ()

    def watch_arguments(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, through the function that runs the hooks on their gradients."""
        indices = [i for i, x in enumerate(args) if _receives_gradient(x)]
        self.args, self.has_argument_gradients = args, bool(indices)
        if not indices:
            return args
        watched = iter(ArgumentGradients.apply(self, indices, *(args[i] for i in indices)))
        return tuple(next(watched) if i in indices else x for i, x in enumerate(args))

    def watch_results(self, result: Any) -> Any:
        """The result, through the function that records its gradients."""
        leaves, tree = flatten(result)
        tensors = [i for i, x in enumerate(leaves) if isinstance(x, Tensor)]
        indices = [n for n, i in enumerate(tensors) if _receives_gradient(leaves[i])]
        if not indices:
            return result
        watched = ResultGradients.apply(self, indices, len(tensors), *(leaves[tensors[n]] for n in indices))
        for n, x in zip(indices, watched, strict=True):
            leaves[tensors[n]] = x
        return tree.unflatten(leaves)

    def all_gradients(self, indices: list[int], grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """The gradients of all arguments: zeros for tensors without one, None for arguments that are no tensors."""
        by_index = dict(zip(indices, grads, strict=True))
        others = (zeros_like(x) if isinstance(x, Tensor) else None for x in self.args)
        return tuple(by_index.get(i, other) for i, other in enumerate(others))

    def run_hooks(self, grad_inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """The gradients of the arguments after the hooks."""
        for hook in self.hooks:
            changed = hook.function(self.module, grad_inputs, self.grad_outputs)
            if changed is None:
                continue
            changed = changed if isinstance(changed, tuple) else (changed,)
            if len(changed) != len(grad_inputs):
                raise refuse(
                    f"expected a full_backward_hook of {type(self.module).__name__} to give {len(grad_inputs)} "
                    f"gradients or None, got {len(changed)}"
                )
            grad_inputs = changed
        return grad_inputs


def _receives_gradient(value: Any) -> bool:
    """Whether a gradient may flow to a value."""
    builder: Any = current_builder()
    return isinstance(value, Tensor) and (value.requires_grad if builder.eager else builder.receives_gradient(value))


class ArgumentGradients(Function):
    """The arguments of a module: their gradients leave the module."""

    @staticmethod
    def forward(ctx: Any, hooked: HookedCall, indices: list[int], *tensors: Any) -> Any:
        """The arguments."""
        ctx.hooked, ctx.indices = hooked, indices
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """The gradients that the hooks return."""
        argument_grads = ctx.hooked.run_hooks(ctx.hooked.all_gradients(ctx.indices, grads))
        return None, None, *(argument_grads[i] for i in ctx.indices)


class ResultGradients(Function):
    """The results of a module: their gradients enter the module."""

    @staticmethod
    def forward(ctx: Any, hooked: HookedCall, indices: list[int], count: int, *tensors: Any) -> Any:
        """The results."""
        ctx.hooked, ctx.indices, ctx.count = hooked, indices, count
        ctx.set_materialize_grads(False)
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Records the gradients for the hooks; runs the hooks where no argument has a gradient."""
        by_index = dict(zip(ctx.indices, grads, strict=True))
        ctx.hooked.grad_outputs = tuple(by_index.get(i) for i in range(ctx.count))
        if not ctx.hooked.has_argument_gradients:
            ctx.hooked.run_hooks((None,) * len(ctx.hooked.args))
        return None, None, None, *grads
