"""Nested lists, tuples, dicts and dataclasses as a flat list of leaves and a structure.

Named tuples and dataclasses keep their class; other subclasses become the plain container. Dataclasses of this
package are leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any


@dataclass(frozen=True)
class Tree:
    """The structure of a nested value: a leaf (`kind` None), or a container with children by key."""

    kind: type | None = None
    keys: tuple[Any, ...] = ()
    children: tuple[Tree, ...] = ()

    def paths(self, prefix: str = "") -> Iterator[str]:
        """The name of each leaf: the keys on the path to the leaf, joined by dots."""
        if self.kind is None:
            yield prefix
        for key, child in zip(self.keys, self.children, strict=True):
            yield from child.paths(f"{prefix}.{key}" if prefix else str(key))

    def keystrs(self, prefix: str = "") -> Iterator[str]:
        """The path of each leaf as Python code: `params["w"]`, `layers[0].bias`; the outermost keys are variables."""
        if self.kind is None:
            yield prefix
        has_fields = is_dataclass(self.kind) or hasattr(self.kind, "_fields")
        for key, child in zip(getattr(self.kind, "_fields", self.keys), self.children, strict=True):
            part = f".{key}" if has_fields else f'["{key}"]' if isinstance(key, str) else f"[{key!r}]"
            yield from child.keystrs(f"{prefix}{part}" if prefix else str(key))

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """The nested value of this structure with these leaves."""
        return self._take(iter(leaves))

    def _take(self, leaves: Iterator[Any]) -> Any:
        if self.kind is None:
            return next(leaves)
        values = [c._take(leaves) for c in self.children]
        if self.kind is dict:
            return dict(zip(self.keys, values, strict=True))
        if is_dataclass(self.kind):
            return self.kind(**dict(zip(self.keys, values, strict=True)))
        return self.kind(*values) if hasattr(self.kind, "_fields") else self.kind(values)


LEAF = Tree()


def is_record(value: Any) -> bool:
    """Whether a value is a user's dataclass that is not itself an array."""
    kind = type(value)
    own = kind.__module__.partition(".")[0] == __name__.partition(".")[0]
    return is_dataclass(kind) and not own and not hasattr(kind, "__dlpack__") and not hasattr(kind, "__array__")


def flatten(value: Any) -> tuple[list[Any], Tree]:
    """The leaves of a nested value in order, and its structure."""
    kind: type
    keys: tuple[Any, ...]
    if isinstance(value, dict):
        keys, items, kind = tuple(value), list(value.values()), dict
    elif isinstance(value, (list, tuple)):
        keys, items = tuple(range(len(value))), list(value)
        kind = type(value) if hasattr(value, "_fields") else list if isinstance(value, list) else tuple
    elif is_record(value):
        keys, kind = tuple(f.name for f in fields(value) if f.init), type(value)
        items = [getattr(value, key) for key in keys]
    else:
        return [value], LEAF
    parts = [flatten(v) for v in items]
    return [x for leaves, _ in parts for x in leaves], Tree(kind, keys, tuple(t for _, t in parts))
