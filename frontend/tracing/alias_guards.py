"""Alias guards: captured tensors must share the memory that they shared while the function was traced.

A program is specialized to the aliasing among the tensors that the program reads and updates.
"""

from __future__ import annotations

import itertools
import operator
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.frontend.core.arrays import Data
from oneflow.frontend.core.errors import CallError, user_location
from oneflow.frontend.eager.regions import region_in, region_of, span_of
from oneflow.frontend.eager.tape import Leaf
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.runtime.spans import Span, Spans, overlapping_pairs

T = TypeVar("T")


class GradientOf(EagerTensor):
    """The gradient of a leaf, whichever tensor that is at the time: a program outlives the gradients of one step."""

    __slots__ = ("of_leaf",)

    def __init__(self, leaf: Leaf) -> None:
        self.of_leaf, self.builder = leaf, leaf.grad.builder

    @property
    def current(self) -> Any:
        """The tensor that is the gradient now, None where the leaf has none."""
        return self.of_leaf.grad

    @property
    def handle(self) -> Any:
        """The variable of that tensor."""
        return self.current.handle

    @handle.setter
    def handle(self, value: Any) -> None:
        self.current.handle = value

    @property
    def desc(self) -> TensorDesc:  # type: ignore[override]
        """The type of that tensor."""
        desc: TensorDesc = self.current.desc
        return desc

    @property
    def view_meta(self) -> Any:
        """The view of another tensor that the tensor is; None where the tensor is no view."""
        return self.current.view_meta


def is_root(tensor: Any) -> bool:
    """Whether a captured input is a tensor that is no view, and the same tensor at every run."""
    return isinstance(tensor, EagerTensor) and not isinstance(tensor, GradientOf) and tensor.view_meta is None


class SpanCache(Generic[T]):
    """The result of `compute` for the spans of tensors, computed again only when the memory of a tensor changes.

    Arrays are referenced weakly, so that the cache does not keep the memory of a tensor alive.
    """

    def __init__(self, tensors: Sequence[EagerTensor], compute: Callable[[list[Span]], T]) -> None:
        self._roots = [t for t in tensors if is_root(t)]
        self._others = [t for t in tensors if not is_root(t)]
        self._compute = compute
        self._cached: tuple[list[weakref.ref[Any]], list[Span], Any] = [], [], None

    def __call__(self) -> T:
        arrays, other_memories = [t.handle.handle for t in self._roots], list(map(_memory_of, self._others))
        arrays += itertools.chain.from_iterable(other_memories)
        cached = self._cached
        if len(arrays) != len(cached[0]) or not all(map(operator.is_, arrays, map(operator.call, cached[0]))):
            cached = self._cached = self._recompute(arrays, other_memories)
        value: T = cached[2]
        return value

    def _recompute(
        self, arrays: list[Any], other_memories: list[Any]
    ) -> tuple[list[weakref.ref[Any]], list[Span], T]:
        cached, count = self._cached, len(self._roots)
        stayed = cached[0] and all(map(operator.is_, arrays[:count], map(operator.call, cached[0])))
        spans = cached[1][:count] if stayed else list(map(span_of, arrays[:count]))
        pairs = zip(self._others, other_memories, strict=True)
        spans += [span_of(memory[0]) if len(memory) == 1 else region_of(t).span for t, memory in pairs]
        return list(map(weakref.ref, arrays)), spans, self._compute(spans)


def _memory_of(tensor: EagerTensor) -> tuple[Any, ...]:
    """The array that holds the elements of a tensor, and for a view which part of that array."""
    view = tensor.view_meta
    return (tensor.handle.handle,) if view is None else (view.root.handle.handle, view)


class AliasGuard:
    """The guard that captured tensors have the types and leaves of the capture, and share memory in the same way.

    Attributes:
        tensors: the captured tensors, with their `leaves` and `descs` in the trace, in the same order.
        gradients: the tensors that are gradients of leaves.
    """

    def __init__(self) -> None:
        self.tensors: list[EagerTensor] = []
        self.leaves: list[Leaf | None] = []
        self.descs: list[TensorDesc] = []
        self.gradients: list[GradientOf] = []
        self._owners: dict[int, EagerTensor] = {}
        self._shared_pairs: SpanCache[Any] | None = None

    def watch(self, tensor: EagerTensor, owner: EagerTensor) -> None:
        """Adds a tensor; `owner` is the tensor that was captured first with the same elements."""
        if id(tensor) not in self._owners:
            self._owners[id(tensor)] = owner
            self.tensors.append(tensor)
            self.leaves.append(tensor.variable.leaf)
            self.descs.append(tensor.variable.desc)
            if isinstance(tensor, GradientOf):
                self.gradients.append(tensor)

    def seal(self) -> None:
        """Records how the tensors share memory; called when all are known."""
        tensors = sorted(self.tensors, key=is_root, reverse=True)
        self._shared_pairs = SpanCache(tensors, lambda spans: _shared_pairs(tensors, spans))
        self._expected_pairs = self._shared_pairs()

    def representatives(self) -> Iterator[EagerTensor]:
        """A tensor for each distinct memory and leaf."""
        captured = reversed(list(zip(self.tensors, self.leaves, self._owners.values(), strict=True)))
        yield from {leaf or id(owner): t for t, leaf, owner in captured}.values()

    def covers_exactly(self, tensors: Sequence[EagerTensor]) -> bool:
        """Whether the guard is about exactly these tensors, and no tensor is a view."""
        return {id(t) for t in tensors} == self._owners.keys() and all(map(is_root, tensors))

    @property
    def any_requires_grad(self) -> bool:
        """Whether one of the tensors requires grad."""
        return any(tensor.requires_grad for tensor in self.tensors)

    @property
    def shares_memory_as_traced(self) -> bool:
        """Whether the tensors share the memory of the trace."""
        assert self._shared_pairs is not None
        return bool(self._shared_pairs() == self._expected_pairs)

    @property
    def has_shared_memory(self) -> bool:
        """Whether some of the tensors shared memory when the function was traced."""
        return bool(self._expected_pairs)

    def __bool__(self) -> bool:
        return bool(self.tensors)


def _shared_pairs(tensors: Sequence[EagerTensor], spans: Sequence[Span]) -> list[tuple[Any, ...]]:
    """The pairs of tensors whose memory overlaps, with the layout of each relative to the other."""
    return sorted((a, b, *_relative_layout(tensors[a], tensors[b])) for a, b in overlapping_pairs(spans))


def _relative_layout(one: EagerTensor, other: EagerTensor) -> tuple[Any, ...]:
    one_region, other_region = region_of(one), region_of(other)
    return other_region.begin - one_region.begin, one_region.strides, other_region.strides


class NoAliasCheck:
    """The check that no argument shares memory with a captured tensor that the function updates.

    The program reads its arguments before the updates, so with such an argument its results would differ from the
    function's.
    """

    def __init__(self, updated: Sequence[EagerTensor]) -> None:
        self._updated = updated
        self._spans = SpanCache(updated, Spans)

    def check(
        self, arrays: Sequence[Data], views: Mapping[int, EagerTensor], names: Sequence[str], name: str
    ) -> None:
        """Checks the arrays of arguments, which are called `names`; `views` are the arguments that are views, by
        index.

        Raises:
            CallError: an argument shares memory with an updated tensor.
        """
        spans = self._spans()
        overlapping = [(index, region_in(a)) for index, a in enumerate(arrays) if spans.overlaps(span_of(a))]
        overlapping += [(n, region) for n, v in views.items() if spans.overlaps((region := region_of(v)).span)]
        for index, region in overlapping:
            if any(region_of(t).overlaps(region) for t in self._updated):
                raise CallError(
                    f"{name}: expected argument {names[index]} not to share memory with captured tensors that the "
                    f"function updates; pass {names[index]}.clone(), or use that tensor in the function without "
                    "passing it",
                    user_location(),
                )
