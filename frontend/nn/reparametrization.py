"""Weights that are computed of other parameters before every call of a module: `weight_norm`, `spectral_norm`."""

from __future__ import annotations

from typing import Any, TypeVar

from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import current_builder
from oneflow.frontend.core.errors import refuse
from oneflow.frontend.core.hooks import Handle
from oneflow.frontend.eager.tape import no_grad
from oneflow.frontend.nn.module import Module, Parameter

M = TypeVar("M", bound=Module)


class Reparametrization:
    """A hook before `forward` that computes a weight."""

    handle: Handle

    def __init__(self, name: str) -> None:
        self.name = name

    def compute(self, module: Module) -> Any:
        """The weight."""
        raise NotImplementedError

    def __call__(self, module: Module, args: Any) -> None:
        outside, computed = module.__dict__.get(self.name), self.compute(module)
        setattr(module, self.name, computed)
        current_builder().on_trace_end(lambda: self._restore(module, computed, outside))

    def _restore(self, module: Module, computed: Any, outside: Any) -> None:
        """Restores the module's weight from before a trace, unless the function replaced the computed weight."""
        if module.__dict__.get(self.name) is computed:
            setattr(module, self.name, outside)


def _attach(module: Module, hook: Reparametrization, **parameters: Any) -> None:
    """Replaces a parameter by other parameters, from which the hook computes the parameter.

    Raises:
        RuntimeError: there is no such parameter, or the parameter is computed already.
    """
    weight = module._parameters.get(hook.name)
    if weight is None:
        raise refuse(f"expected a parameter {hook.name!r} of {type(module).__name__}, which no other hook computes")
    delattr(module, hook.name)
    for suffix, value in parameters.items():
        module.register_parameter(f"{hook.name}_{suffix}", Parameter(value))
    hook.handle = module.register_forward_pre_hook(hook)
    setattr(module, hook.name, hook.compute(module))


def _detach(module: Module, kind: type[Reparametrization], name: str, suffixes: tuple[str, ...]) -> None:
    """Makes a computed weight a parameter again.

    Raises:
        ValueError: no such hook computes it.
    """
    hooks = module._module_hooks().before
    hook = next((h.function for h in hooks if isinstance(h.function, kind) and h.function.name == name), None)
    if hook is None:
        raise ValueError(f"expected {kind.__name__} of {name!r} in {type(module).__name__}; there is none")
    with no_grad():
        weight = hook.compute(module)
    hook.handle.remove()
    for attribute in (name, *(f"{name}_{s}" for s in suffixes)):
        delattr(module, attribute)
    module.register_parameter(name, Parameter(weight.detach()))


class WeightNorm(Reparametrization):
    """w = g * v / norm(v), where the norm is taken over all dimensions but `dim`, or over all."""

    def __init__(self, name: str, dim: int | None) -> None:
        super().__init__(name)
        self.dim = dim

    def norm(self, v: Any) -> Any:
        """The norms, with dimensions of size 1 in place of the reduced dimensions."""
        if self.dim is None or self.dim == -1:
            return F.norm(v)
        kept = self.dim % v.dim()
        return F.norm(v, 2.0, [d for d in range(v.dim()) if d != kept], keepdim=True)

    def compute(self, module: Module) -> Any:
        """The weight of the length `g` and the direction `v`."""
        g, v = (getattr(module, f"{self.name}_{part}") for part in ("g", "v"))
        return F.mul(v, F.div(g, self.norm(v)))


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Replaces a parameter by its lengths `name_g` and directions `name_v`: w = g * v / norm(v), the norm over all
    dimensions but `dim`, with None over all; returns the module. Arxiv 1602.07868.

    Raises:
        RuntimeError: there is no such parameter.
    """
    hook = WeightNorm(name, dim)
    weight = module._parameters.get(name)
    with no_grad():
        values = {} if weight is None else {"g": hook.norm(weight).clone(), "v": weight.detach().clone()}
    _attach(module, hook, **values)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Makes a weight of `weight_norm` a parameter again; returns the module.

    Raises:
        ValueError: it is none.
    """
    _detach(module, WeightNorm, name, ("g", "v"))
    return module


class SpectralNorm(Reparametrization):
    """A weight over its largest singular value, which power iterations estimate in training mode."""

    def __init__(self, name: str, count: int, dim: int, eps: float) -> None:
        super().__init__(name)
        self.count, self.dim, self.eps = count, dim, eps

    def matrix(self, weight: Any) -> Any:
        """The weight with `dim` as rows."""
        return F.reshape(F.movedim(weight, self.dim, 0), (weight.size(self.dim), -1))

    def compute(self, module: Module) -> Any:
        """The weight over its largest singular value."""
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        matrix = self.matrix(weight)
        if module.training:
            with no_grad():
                for _ in range(self.count):
                    v.copy_(F.normalize(F.mv(F.t(matrix), u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(F.mv(matrix, v), dim=0, eps=self.eps))
        u, v = F.clone(u), F.clone(v)
        return F.div(weight, F.dot(u, F.mv(matrix, v)))


def spectral_norm(
    module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> M:
    """Replaces a parameter by `name_orig`, of which w = orig / sigma is computed, sigma being the largest singular
    value of its matrix with the rows `dim`; returns the module. Arxiv 1802.05957.

    Raises:
        RuntimeError: there is no such parameter.
        ValueError: there is less than one power iteration.
    """
    if n_power_iterations < 1:
        raise ValueError(f"expected at least 1 power iteration, got {n_power_iterations}")
    rows = dim if dim is not None else int(type(module).__name__.startswith("ConvTranspose"))
    hook = SpectralNorm(name, n_power_iterations, rows, eps)
    weight = module._parameters.get(name)
    values = {}
    if weight is not None:
        values = {"orig": weight.detach()}
        for part, size in zip("uv", hook.matrix(weight.detach()).shape, strict=True):
            vector = F.normalize(F.randn(size, dtype=weight.dtype), dim=0, eps=eps)
            module.register_buffer(f"{name}_{part}", vector)
    _attach(module, hook, **values)
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Makes a weight of `spectral_norm` a parameter again; returns the module.

    Raises:
        ValueError: it is none.
    """
    _detach(module, SpectralNorm, name, ("orig", "u", "v"))
    return module
