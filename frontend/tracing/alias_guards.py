"""Tensors from outside of a traced function, which have to lie in memory as they did when it was traced."""

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
from oneflow.runtime.spans import Span, Spans, meeting

T = TypeVar("T")


class GradientOf(EagerTensor):
    """The gradient that a leaf has, whichever tensor that is by then: programs outlive the gradients of one step."""

    __slots__ = ("_leaf",)

    def __init__(self, leaf: Leaf) -> None:
        self._leaf, self.builder = leaf, leaf.grad.builder

    @property
    def present(self) -> Any:
        """The tensor, None where there is none."""
        return self._leaf.grad

    @property
    def handle(self) -> Any:  # type: ignore[override]
        """What the tensor is."""
        return self.present.handle

    @handle.setter
    def handle(self, value: Any) -> None:
        self.present.handle = value

    @property
    def desc(self) -> TensorDesc:  # type: ignore[override]
        """The type of the tensor."""
        desc: TensorDesc = self.present.desc
        return desc

    @property
    def view_meta(self) -> Any:  # type: ignore[override]
        """What the tensor is a view of."""
        return self.present.view_meta


def is_root(given: Any) -> bool:
    """Whether it is a tensor, always the same, and no view: so it stays."""
    return isinstance(given, EagerTensor) and not isinstance(given, GradientOf) and given.view_meta is None


class SpanCache(Generic[T]):
    """What `compute` makes of the spans of tensors, again when one of them lies elsewhere.

    Arrays are known weakly: who gives up a tensor gives up its memory.
    """

    def __init__(self, tensors: Sequence[EagerTensor], compute: Callable[[list[Span]], T]) -> None:
        self._roots = [t for t in tensors if is_root(t)]
        self._others = [t for t in tensors if not is_root(t)]
        self._compute = compute
        self._cached: tuple[list[weakref.ref[Any]], list[Span], Any] = [], [], None

    def __call__(self) -> T:
        arrays, other_memories = [t.handle.handle for t in self._roots], list(map(_identity_of_memory, self._others))
        arrays += itertools.chain.from_iterable(other_memories)
        cached = self._cached
        if len(arrays) != len(cached[0]) or not all(map(operator.is_, arrays, map(operator.call, cached[0]))):
            cached = self._cached = self._recompute(arrays, other_memories)
        return cached[2]

    def _recompute(
        self, arrays: list[Any], other_memories: list[Any]
    ) -> tuple[list[weakref.ref[Any]], list[Span], T]:
        cached, count = self._cached, len(self._roots)
        stayed = cached[0] and all(map(operator.is_, arrays[:count], map(operator.call, cached[0])))
        spans = cached[1][:count] if stayed else list(map(span_of, arrays[:count]))
        pairs = zip(self._others, other_memories, strict=True)
        spans += [span_of(memory[0]) if len(memory) == 1 else region_of(t).span for t, memory in pairs]
        return list(map(weakref.ref, arrays)), spans, self._compute(spans)


def _identity_of_memory(tensor: EagerTensor) -> tuple[Any, ...]:
    """The array that elements are in, and which of that they are."""
    view = tensor.view_meta
    return (tensor.handle.handle,) if view is None else (view.root.handle.handle, view)


class AliasGuard:
    """Whether tensors from outside have the types and leaves that they were captured with, and share memory alike."""

    def __init__(self) -> None:
        self._tensors: dict[int, tuple[EagerTensor, Leaf | None, TensorDesc, EagerTensor]] = {}
        self._watched: list[tuple[EagerTensor, Leaf | None, TensorDesc]] = []
        self._gradients: list[GradientOf] = []
        self._shared_pairs: SpanCache[Any] | None = None

    def watch(self, tensor: EagerTensor, owner: EagerTensor) -> None:
        """Adds a tensor with the elements of `owner`, the first one that was captured of those."""
        if id(tensor) not in self._tensors:
            self._tensors[id(tensor)] = tensor, tensor.variable.leaf, tensor.variable.desc, owner
            self._watched.append((tensor, tensor.variable.leaf, tensor.variable.desc))
            if isinstance(tensor, GradientOf):
                self._gradients.append(tensor)

    def seal(self) -> None:
        """Notes how all of them share memory: programs are for that."""
        tensors = sorted((tensor for tensor, *_ in self._watched), key=is_root, reverse=True)
        self._guarded, self._leaves = [t for t, *_ in self._watched], [leaf for _, leaf, _ in self._watched]
        self._shared_pairs = SpanCache(tensors, lambda spans: _shared_pairs(tensors, spans))
        self._expected_pairs = self._shared_pairs()

    def representatives(self) -> Iterator[EagerTensor]:
        """One tensor of each memory and leaf."""
        yield from {leaf or id(owner): t for t, leaf, _, owner in reversed(self._tensors.values())}.values()

    def covers_exactly(self, tensors: Sequence[EagerTensor]) -> bool:
        """Whether those are all that it is about, and none of them is a view."""
        return {id(t) for t in tensors} == self._tensors.keys() and all(map(is_root, tensors))

    @property
    def has_leaves(self) -> bool:
        """Whether the tensors have the leaves that they were captured with."""
        return [tensor.handle.leaf for tensor in self._guarded] == self._leaves

    @property
    def want_gradients(self) -> bool:
        """Whether a gradient flows to one of them, where operators are recorded."""
        return any(tensor.requires_grad for tensor, *_ in self._tensors.values())

    def __bool__(self) -> bool:
        return bool(self._tensors)

    def __call__(self, leaves: bool = True) -> bool:
        """Whether that is so, `leaves` aside: tensors may require no gradient for now."""
        if self._gradients and any(gradient.present is None for gradient in self._gradients):
            return True  # what is not there is not altered; another guard says that it is not there
        for tensor, leaf, desc in self._watched:
            now = tensor.handle
            if (now.leaf is not leaf and leaves) or (now.desc is not desc and now.desc != desc):
                return False
        assert self._shared_pairs is not None
        return self._shared_pairs() == self._expected_pairs


def _shared_pairs(tensors: Sequence[EagerTensor], spans: Sequence[Span]) -> list[tuple[Any, ...]]:
    """The pairs of tensors that share memory, and how the two lie in it."""
    return sorted((a, b, *_relative_layout(tensors[a], tensors[b])) for a, b in meeting(spans))


def _relative_layout(one: EagerTensor, other: EagerTensor) -> tuple[Any, ...]:
    first, second = region_of(one), region_of(other)
    return second.begin - first.begin, first.strides, second.strides


class NoAliasCheck:
    """Whether what a function is called with lies apart from the tensors from outside that it updates.

    Its program reads arguments as they were before. Where one of them is what the function updates it would give
    other results than the function.
    """

    def __init__(self, updated: Sequence[EagerTensor]) -> None:
        self._updated = updated
        self._spans = SpanCache(updated, Spans)

    def check(
        self, arrays: Sequence[Data], views: Mapping[int, EagerTensor], names: Sequence[str], name: str
    ) -> None:
        """Looks at the arrays of arguments with their names, and by their numbers at those that are views.

        Raises:
            CallError: one of them shares memory with what is updated.
        """
        spans = self._spans()
        found = [(number, region_in(a)) for number, a in enumerate(arrays) if spans.meet(span_of(a))]
        found += [(n, region) for n, v in views.items() if spans.meet((region := region_of(v)).span)]
        for number, region in found:
            if any(region_of(t).meets(region) for t in self._updated):
                raise CallError(
                    f"{name}: expected argument {names[number]} apart from the tensors from outside that it updates, "
                    f"got one in their memory: pass {names[number]}.clone(), or use that tensor in the function "
                    "without passing it",
                    user_location(),
                )
