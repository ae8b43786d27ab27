"""Guards: what a traced program depends on besides its arguments; a guard that fails means recompilation.

Guards are gathered as data while a function is traced. `compile/guarded_call.py` compares these data before each run;
where a guard fails, `compile/compiled.py` looks for another specialization or traces the function again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from oneflow.frontend.core.dispatch import Stateful
from oneflow.frontend.core.hooks import Hooks
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.tape import Leaf
from oneflow.frontend.tracing.alias_guards import AliasGuard
from oneflow.frontend.tracing.callables import value_key

#: Reads a guarded value: `getattr`, `dict.get`, or another function of an owner and a key.
Read = Callable[[Any, Any], Any]


class GuardedValue(NamedTuple):
    """The guard that `read(owner, key)` returns `value`."""

    read: Read
    owner: Any
    key: Any
    value: Any


class GuardedItems(NamedTuple):
    """The guard that the dicts under `keys` of the dict `getattr(owner, name)` have these objects."""

    owner: Any
    name: str
    keys: Sequence[int]
    objects: Sequence[Any]


@dataclass
class Guards:
    """The guards of one program.

    Attributes:
        values: settings that were read, such as training mode.
        items: objects that were read from nested dicts, such as the states of an optimizer.
        versions: functions without arguments, with their values: versions of hooks, and facts of modules.
            The functions are called again only when hooks or attributes of any module change.
        changes_compared: `Hooks.changes` when the versions were compared last.
        gradients: leaves whose gradient was read, and whether there was none.
        recording: whether operators were recorded for gradients; None where the program does not depend on that.
        aliases: the guard on the captured tensors.
    """

    values: list[GuardedValue] = field(default_factory=list)
    items: list[GuardedItems] = field(default_factory=list)
    versions: list[tuple[Callable[[], Any], Any]] = field(default_factory=list)
    changes_compared: int = field(default_factory=lambda: Hooks.changes)
    gradients: list[tuple[Leaf, bool]] = field(default_factory=list)
    recording: bool | None = None
    aliases: AliasGuard = field(default_factory=AliasGuard)

    def add_value(self, read: Read, owner: Any, key: Any) -> Any:
        """Adds the guard that `read(owner, key)` keeps its value, and returns that value, which is no tensor."""
        value = read(owner, key)
        self.values.append(GuardedValue(read, owner, key, value))
        return value

    def add_items(self, owner: Any, name: str, keys: Sequence[int]) -> None:
        """Adds the guard on the objects in the dicts under `keys` of `getattr(owner, name)`."""
        held = getattr(owner, name)
        self.items.append(GuardedItems(owner, name, keys, [x for k in keys for x in held.get(k, {}).values()]))

    def add_version(self, version: Callable[[], Any]) -> None:
        """Adds the guard that `version()` keeps its value while hooks or attributes of modules change."""
        self.versions.append((version, version()))

    def add_facts(self, owner: Stateful, before: dict[Any, Any]) -> None:
        """Adds the guard on those facts of `owner` that the function itself has not changed since `before`."""
        after = owner.facts()
        unchanged = {k: v for k, v in after.items() if k in before and not differs(before[k], v)}
        self.add_version(functools.partial(_keeps_facts, owner, unchanged, after.keys()))

    def __bool__(self) -> bool:
        return bool(self.values or self.items or self.versions or self.gradients or self.aliases)


def differs(current: Any, recorded: Any) -> bool:
    """Whether a guarded value has changed: tensors are compared by identity, numbers by type too."""
    if current is recorded:
        return False
    if isinstance(current, Tensor) or isinstance(recorded, Tensor):
        return True
    if isinstance(current, (bool, int, float, str)):
        return bool(value_key(current) != value_key(recorded))
    return bool(current != recorded)


def _keeps_facts(owner: Stateful, facts: dict[Any, Any], names: Any) -> bool:
    """Whether `owner` has facts of these names, including these facts."""
    current = owner.facts()
    return current.keys() == names and not any(differs(current[k], v) for k, v in facts.items())
