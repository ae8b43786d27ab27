"""Tensors from outside of a traced function, which have to lie in memory as they did when it was traced."""

from __future__ import annotations

import itertools
import operator
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.frontend.core.arrays import Data
from oneflow.frontend.core.errors import CallError, user_place
from oneflow.frontend.eager.regions import region_in, region_of, span_of
from oneflow.frontend.eager.tape import Leaf
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.runtime.spans import Span, Spans, overlapping_pairs

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
    def shows(self) -> Any:  # type: ignore[override]
        """What the tensor is a view of."""
        return self.present.shows


def is_root(given: Any) -> bool:
    """Whether it is a tensor, always the same, and no view: so it stays."""
    return isinstance(given, EagerTensor) and not isinstance(given, GradientOf) and given.shows is None


class Found(Generic[T]):
    """What `find` makes of the spans of tensors, again when one of them lies elsewhere.

    Arrays are known weakly: who gives up a tensor gives up its memory.
    """

    def __init__(self, tensors: Sequence[EagerTensor], find: Callable[[list[Span]], T]) -> None:
        self._roots = [t for t in tensors if is_root(t)]
        self._others = [t for t in tensors if not is_root(t)]
        self._find = find
        self._last: tuple[list[weakref.ref[Any]], list[Span], Any] = [], [], None

    def __call__(self) -> T:
        arrays, others = [t.handle.handle for t in self._roots], list(map(_lying, self._others))
        arrays += itertools.chain.from_iterable(others)
        last = self._last
        if len(arrays) != len(last[0]) or not all(map(operator.is_, arrays, map(operator.call, last[0]))):
            last = self._last = self._renewed(arrays, others)
        return last[2]

    def _renewed(self, arrays: list[Any], others: list[Any]) -> tuple[list[weakref.ref[Any]], list[Span], T]:
        last, count = self._last, len(self._roots)
        stayed = last[0] and all(map(operator.is_, arrays[:count], map(operator.call, last[0])))
        spans = last[1][:count] if stayed else list(map(span_of, arrays[:count]))
        pairs = zip(self._others, others, strict=True)
        spans += [span_of(lying[0]) if len(lying) == 1 else region_of(t).span for t, lying in pairs]
        return list(map(weakref.ref, arrays)), spans, self._find(spans)


def _lying(tensor: EagerTensor) -> tuple[Any, ...]:
    """The array that elements are in, and which of that they are."""
    shown = tensor.shows
    return (tensor.handle.handle,) if shown is None else (shown.root.handle.handle, shown)


class Unaltered:
    """Whether tensors from outside have the types and leaves that they were captured with, and share memory alike."""

    def __init__(self) -> None:
        self._tensors: dict[int, tuple[EagerTensor, Leaf | None, TensorDesc, EagerTensor]] = {}
        self._watched: list[tuple[EagerTensor, Leaf | None, TensorDesc]] = []
        self._gradients: list[GradientOf] = []
        self._links: Found[Any] | None = None

    def watch(self, tensor: EagerTensor, owner: EagerTensor) -> None:
        """Adds a tensor with the elements of `owner`, the first one that was captured of those."""
        if id(tensor) not in self._tensors:
            self._tensors[id(tensor)] = tensor, tensor.variable.leaf, tensor.variable.desc, owner
            self._watched.append((tensor, tensor.variable.leaf, tensor.variable.desc))
            if isinstance(tensor, GradientOf):
                self._gradients.append(tensor)

    def settle(self) -> None:
        """Notes how all of them share memory: programs are for that."""
        tensors = sorted((tensor for tensor, *_ in self._watched), key=is_root, reverse=True)
        self._seen, self._leaves = [t for t, *_ in self._watched], [leaf for _, leaf, _ in self._watched]
        self._links = Found(tensors, lambda spans: _links(tensors, spans))
        self._linked = self._links()

    def apart(self) -> Iterator[EagerTensor]:
        """One tensor of each memory and leaf."""
        yield from {leaf or id(owner): t for t, leaf, _, owner in reversed(self._tensors.values())}.values()

    def looks_at(self, tensors: Sequence[EagerTensor]) -> bool:
        """Whether those are all that it is about, and none of them is a view."""
        return {id(t) for t in tensors} == self._tensors.keys() and all(map(is_root, tensors))

    @property
    def has_leaves(self) -> bool:
        """Whether the tensors have the leaves that they were captured with."""
        return [tensor.handle.leaf for tensor in self._seen] == self._leaves

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
        assert self._links is not None
        return self._links() == self._linked


def _links(tensors: Sequence[EagerTensor], spans: Sequence[Span]) -> list[tuple[Any, ...]]:
    """The pairs of tensors that share memory, and how the two lie in it."""
    return sorted((a, b, *_beside(tensors[a], tensors[b])) for a, b in overlapping_pairs(spans))


def _beside(one: EagerTensor, other: EagerTensor) -> tuple[Any, ...]:
    first, second = region_of(one), region_of(other)
    return second.begin - first.begin, first.strides, second.strides


class Apart:
    """Whether what a function is called with lies apart from the tensors from outside that it updates.

    Its program reads arguments as they were before. Where one of them is what the function updates it would give
    other results than the function.
    """

    def __init__(self, updated: Sequence[EagerTensor]) -> None:
        self._updated = updated
        self._spans = Found(updated, Spans)

    def check(
        self, arrays: Sequence[Data], views: Mapping[int, EagerTensor], names: Sequence[str], name: str
    ) -> None:
        """Looks at the arrays of arguments with their names, and by their numbers at those that are views.

        Raises:
            CallError: one of them shares memory with what is updated.
        """
        spans = self._spans()
        found = [(number, region_in(a)) for number, a in enumerate(arrays) if spans.overlaps(span_of(a))]
        found += [(n, region) for n, v in views.items() if spans.overlaps((region := region_of(v)).span)]
        for number, region in found:
            if any(region_of(t).meets(region) for t in self._updated):
                raise CallError(
                    f"{name}: expected argument {names[number]} apart from the tensors from outside that it updates, "
                    f"got one in their memory: pass {names[number]}.clone(), or use that tensor in the function "
                    "without passing it",
                    user_place(),
                )
