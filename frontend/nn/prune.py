"""Pruning: parameters of which masks keep some elements: `flow.nn.utils.prune`.

The module has the parameter `name_orig` and the buffer `name_mask`; before every call the weight `name` is computed
as their product. `remove` makes the pruned weight a parameter again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.eager.tape import no_grad
from oneflow.frontend.nn.module import Module, Parameter
from oneflow.frontend.nn.reparametrization import Reparametrization

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer",
    "RandomStructured", "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity", "is_pruned",
    "l1_unstructured", "ln_structured", "random_structured", "random_unstructured", "remove",
]  # fmt: skip

M = TypeVar("M", bound=Module)


class BasePruningMethod(Reparametrization):
    """A way to prune: subclasses define `compute_mask` and `PRUNING_TYPE`.

    `PRUNING_TYPE` says which elements `compute_mask` gets where a parameter is pruned again: "unstructured", those
    that are left, as a vector; "structured", the slices along `dim` of which something is left; "global", all.
    """

    PRUNING_TYPE = "unstructured"
    dim: int

    def __init__(self) -> None:
        super().__init__("")

    @property
    def _tensor_name(self) -> str:
        return self.name

    @_tensor_name.setter
    def _tensor_name(self, name: str) -> None:
        self.name = name

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask of a tensor of importances, 1 for elements to keep, within `default_mask`."""
        raise NotImplementedError(f"{type(self).__name__} defines no compute_mask")

    def compute(self, module: Module) -> Any:
        """The pruned weight."""
        original, mask = (getattr(module, f"{self.name}_{part}") for part in ("orig", "mask"))
        return F.mul(original, F.cast(mask, original.dtype))

    apply_mask = compute

    def prune(self, t: Any, default_mask: Any = None, importance_scores: Any = None) -> Any:
        """A tensor with the elements that the mask of its importances (itself without) drops set to 0."""
        scores = _scores(t, importance_scores)
        mask = self.compute_mask(scores, F.ones_like(t) if default_mask is None else default_mask)
        return F.mul(t, F.cast(mask, t.dtype))

    @classmethod
    def apply(cls, module: Module, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any) -> Any:
        """Prunes a parameter of a module, in addition to earlier prunings; returns the hook.

        Raises:
            ValueError: the importances have another shape than the parameter.
        """
        before = _hook(module, name)
        method = cls(*args, **kwargs)
        method.name = name
        original = getattr(module, name if before is None else f"{name}_orig")
        with no_grad():
            scores = _scores(original, importance_scores)
            if before is None:
                hook: BasePruningMethod = method
                mask = method.compute_mask(scores, F.ones_like(original))
            else:
                hook = PruningContainer(*_methods(before), method)
                mask = hook.compute_mask(scores, getattr(module, f"{name}_mask"))
        _install(module, hook, before, original, F.cast(mask, original.dtype))
        return hook

    def remove(self, module: Module) -> None:
        """Makes the pruned weight a parameter again: the one that it was, with other values."""
        original = getattr(module, f"{self.name}_orig")
        with no_grad():
            original.data = self.compute(module)
        self.handle.remove()
        for attribute in (self.name, f"{self.name}_orig", f"{self.name}_mask"):
            delattr(module, attribute)
        module.register_parameter(self.name, original)


def _scores(t: Any, scores: Any) -> Any:
    if scores is None:
        return t
    if tuple(scores.shape) != tuple(t.shape):
        raise ValueError(f"expected importance_scores of the shape {tuple(t.shape)}, got {tuple(scores.shape)}")
    return scores


def _hook(module: Module, name: str) -> Any:
    """The hook that prunes a parameter, if one does."""
    hooks = (h.function for h in module._module_hooks().before)
    return next((h for h in hooks if isinstance(h, BasePruningMethod) and h.name == name), None)


def _methods(hook: BasePruningMethod) -> Iterable[BasePruningMethod]:
    return hook if isinstance(hook, PruningContainer) else (hook,)


def _install(module: Module, hook: BasePruningMethod, before: Any, original: Parameter, mask: Any) -> None:
    if before is None:
        delattr(module, hook.name)
        module.register_parameter(f"{hook.name}_orig", original)
    else:
        before.handle.remove()
    module.register_buffer(f"{hook.name}_mask", mask)
    hook.handle = module.register_forward_pre_hook(hook)
    setattr(module, hook.name, hook.compute(module))


class PruningContainer(BasePruningMethod):
    """Prunings of one parameter, one after the other."""

    def __init__(self, *methods: BasePruningMethod) -> None:
        super().__init__()
        self._methods: tuple[BasePruningMethod, ...] = ()
        for method in methods:
            self.name = method.name
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Adds a pruning of the same parameter.

        Raises:
            TypeError: `method` is none.
            ValueError: it is of another parameter.
        """
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"expected a BasePruningMethod, got {type(method).__name__}")
        if method.name != self.name:
            raise ValueError(f"expected a pruning of {self.name!r}, got one of {method.name!r}")
        self._methods = (*self._methods, method)

    def __len__(self) -> int:
        return len(self._methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._methods)

    def __getitem__(self, index: int) -> BasePruningMethod:
        return self._methods[index]

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask of the last pruning, within the mask of those before."""
        method = self._methods[-1]
        mask: Any = F.clone(F.cast(default_mask, t.dtype))
        if method.PRUNING_TYPE == "global":
            return method.compute_mask(t, mask)
        left: Any = mask != 0
        if method.PRUNING_TYPE == "structured":
            others = [d for d in range(t.dim()) if d != method.dim % t.dim()]
            left = (slice(None),) * (method.dim % t.dim()) + (F.any(left, others),)
        mask[left] = F.cast(method.compute_mask(t[left], mask[left]), t.dtype)
        return mask


class Identity(BasePruningMethod):
    """Keeps everything that is left."""

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask before."""
        return default_mask


class _Amount(BasePruningMethod):
    """A pruning of a number or a fraction of elements or slices."""

    def __init__(self, amount: float) -> None:
        super().__init__()
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def count(self, size: int) -> int:
        """How many of `size` are pruned."""
        count = _compute_nparams_toprune(self.amount, size)
        _validate_pruning_amount(count, size)
        return count


class _Unstructured(_Amount):
    def importances(self, t: Any) -> Any:
        """The importance of each element."""
        raise NotImplementedError

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask before, without the elements of least importance."""
        mask: Any = F.clone(F.flatten(default_mask))
        dropped = F.topk(F.flatten(self.importances(t)), self.count(t.numel()), largest=False)[1]
        mask[dropped] = 0
        return F.reshape(mask, tuple(default_mask.shape))


class RandomUnstructured(_Unstructured):
    """Drops elements at random: a number of them, or a fraction from 0 to 1."""

    def importances(self, t: Any) -> Any:
        """Random numbers."""
        return F.rand(*t.shape)


class L1Unstructured(_Unstructured):
    """Drops the elements with the smallest absolute values: a number of them, or a fraction from 0 to 1."""

    def importances(self, t: Any) -> Any:
        """Absolute values."""
        return F.abs(t)


class _Structured(_Amount):
    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def importances(self, t: Any) -> Any:
        """The importance of each slice along `dim`."""
        raise NotImplementedError

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask before, without the slices of least importance.

        Raises:
            ValueError: the tensor has less than 2 dimensions.
        """
        if t.dim() < 2:
            raise ValueError(f"expected a tensor of at least 2 dimensions for structured pruning, got {t.dim()}")
        dim = self.dim % t.dim()
        mask: Any = F.clone(default_mask)
        dropped = F.topk(self.importances(t), self.count(t.shape[dim]), largest=False)[1]
        mask[(slice(None),) * dim + (dropped,)] = 0
        return mask


class RandomStructured(_Structured):
    """Drops slices along `dim` at random: a number of them, or a fraction from 0 to 1."""

    def importances(self, t: Any) -> Any:
        """Random numbers."""
        return F.rand(t.shape[self.dim])


class LnStructured(_Structured):
    """Drops the slices along `dim` with the smallest norms of order `n`: a number of them, or a fraction."""

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def importances(self, t: Any) -> Any:
        """Norms over all other dimensions."""
        return F.norm(t, self.n, [d for d in range(t.dim()) if d != self.dim % t.dim()])


class CustomFromMask(BasePruningMethod):
    """Keeps what a mask keeps."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any) -> None:
        super().__init__()
        self.mask = mask

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The product of both masks."""
        return F.mul(default_mask, F.cast(self.mask, default_mask.dtype))


def identity(module: M, name: str) -> M:
    """Adds a mask to a parameter that prunes nothing."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: M, name: str, amount: float) -> M:
    """Drops elements of a parameter at random: a number of them, or a fraction from 0 to 1; returns the module."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: M, name: str, amount: float, importance_scores: Any = None) -> M:
    """Drops the elements of a parameter with the smallest absolute values or importances; returns the module."""
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: M, name: str, amount: float, dim: int) -> M:
    """Drops slices of a parameter along `dim` at random; returns the module."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module: M, name: str, amount: float, n: Any, dim: int, importance_scores: Any = None) -> M:
    """Drops the slices of a parameter along `dim` with the smallest norms of order `n`; returns the module."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: M, name: str, mask: Any) -> M:
    """Keeps the elements of a parameter where a mask is not 0; returns the module."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Sequence[tuple[Module, str]],
    pruning_method: Callable[..., BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Any] | None = None,
    **kwargs: Any,
) -> None:
    """Prunes several parameters together, as if they were one vector.

    Raises:
        TypeError: the method is not one of single elements.
    """
    given = importance_scores or {}
    with no_grad():
        scores = [given.get((m, n), getattr(m, n)) for m, n in parameters]
        masks = [getattr(m, f"{n}_mask", None) for m, n in parameters]
        flat = F.cat([F.flatten(s) for s in scores])
        before = F.cat([F.flatten(F.ones_like(s) if k is None else k) for s, k in zip(scores, masks, strict=True)])
        method = pruning_method(**kwargs)
        if method.PRUNING_TYPE != "unstructured":
            raise TypeError(f"expected a method of single elements, got {type(method).__name__}")
        mask = PruningContainer(method).compute_mask(flat, before)
        parts = F.split(mask, [s.numel() for s in scores])
    for (module, name), score, part in zip(parameters, scores, parts, strict=True):
        custom_from_mask(module, name, F.reshape(part, tuple(score.shape)))


def remove(module: M, name: str) -> M:
    """Makes a pruned weight a parameter again, with the values that it has; returns the module.

    Raises:
        ValueError: the parameter is not pruned.
    """
    hook = _hook(module, name)
    if hook is None:
        raise ValueError(f"expected a pruned parameter {name!r} of {type(module).__name__}; it is not pruned")
    hook.remove(module)
    return module


def is_pruned(module: Module) -> bool:
    """Whether a parameter of a module, or of a module in it, is pruned."""
    return any(isinstance(h.function, BasePruningMethod) for m in module.modules() for h in m._module_hooks().before)


def _validate_pruning_amount_init(amount: Any) -> None:
    """Checks the number or fraction of elements to prune."""
    if not isinstance(amount, (int, float)):
        raise TypeError(f"expected a number as amount, got {amount!r}")
    if amount < 0 or (not isinstance(amount, int) and amount > 1):
        raise ValueError(f"expected amount as an integer of at least 0 or a fraction from 0 to 1, got {amount}")


def _validate_pruning_amount(amount: Any, tensor_size: int) -> None:
    """Checks that no more elements are pruned than there are."""
    if isinstance(amount, int) and amount > tensor_size:
        raise ValueError(f"expected to prune at most {tensor_size}, got {amount}")


def _compute_nparams_toprune(amount: Any, tensor_size: int) -> int:
    """How many elements a number or a fraction is."""
    return amount if isinstance(amount, int) else round(amount * tensor_size)
