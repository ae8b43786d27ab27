"""The cache of eager kernels, bounded by the memory of its kernels.

    cache.find(key) or cache.add(key, kernel)

The cache has two generations. A kernel enters the young generation, also when it is found in the old one. When the
young generation has half of the limit, it becomes the old one, and the old one is dropped: the kernels that were not
used for longest. Finding a young kernel, the common case, is one look-up and changes nothing. All changes hold a
lock, since several threads use the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, ItemsView
from dataclasses import dataclass, field
from typing import Any

from oneflow.dialect.locks import Lock
from oneflow.frontend.eager.kernels import Kernel

#: The memory of the program of one operator on one rank: its code, its source and the objects that call it.
PROGRAM_BYTES = 48 << 10


@dataclass
class KernelCache:
    """Kernels by operator, attributes, operand types, and device or ranks.

    Attributes:
        limit_bytes: the memory that the kernels of both generations may have.
    """

    limit_bytes: int = 512 << 20
    _young: dict[Hashable, Kernel] = field(default_factory=dict)
    _old: dict[Hashable, Kernel] = field(default_factory=dict)
    _young_bytes: int = 0
    _lock: Lock = field(default_factory=lambda: Lock(reentrant=True))

    def items(self) -> ItemsView[Any, Kernel]:
        """The keys and kernels of both generations."""
        with self._lock.held():
            return {**self._old, **self._young}.items()

    def find(self, key: Hashable) -> Kernel | None:
        """The kernel of a key; None if there is none."""
        kernel = self._young.get(key)
        if kernel is None and (kernel := self._old.get(key)) is not None:
            self.add(key, kernel)
        return kernel

    def add(self, key: Hashable, kernel: Kernel) -> Kernel:
        """Adds or replaces the kernel of a key, and returns it."""
        size = kernel.num_programs * PROGRAM_BYTES
        with self._lock.held():
            if self._young_bytes + size > self.limit_bytes // 2:
                self._young, self._old, self._young_bytes = {}, self._young, 0
            self._young_bytes += 0 if key in self._young else size
            self._young[key] = kernel
        return kernel

    def keep(self, is_kept: Callable[[Any], bool]) -> None:
        """Drops the kernels whose keys are not kept."""
        with self._lock.held():
            self._young = {key: kernel for key, kernel in self._young.items() if is_kept(key)}
            self._old = {key: kernel for key, kernel in self._old.items() if is_kept(key)}
            self._young_bytes = sum(kernel.num_programs for kernel in self._young.values()) * PROGRAM_BYTES
