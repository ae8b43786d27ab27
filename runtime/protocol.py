"""What every compiled program offers, wherever it runs: on this processor, on a CUDA device, on several ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.runtime.footprint import Footprint

#: Runs a program on arrays that are exactly what it takes; gives None where an array has to be checked or copied.
FastPath = Callable[[Sequence[Any]], list[Any] | None]


class LastRun(Protocol):
    """What an executable knows of the arguments of its last run."""

    def seen(self, numbers: Sequence[int]) -> Seen | None:
        """Some of the arguments, to be compared by themselves; None where the run did not keep all of them."""


class Seen(Protocol):
    """Some arguments of a run, as they were."""

    def holds(self, arrays: Sequence[Any]) -> bool:
        """Whether they are those arrays."""


class Executable(Protocol):
    """A compiled program.

    Attributes:
        array: the class of the arrays that it takes as they are, and that its results are.
        is_remote: whether `array` lies in the memory of a device, which NumPy does not read.
        fast_path: the call for arrays that need no checks; None where there is none.
    """

    array: ClassVar[type]
    is_remote: ClassVar[bool]

    @property
    def fast_path(self) -> FastPath | None:
        """The call for arrays that are exactly what the program takes."""

    @property
    def outputs(self) -> Sequence[TensorDesc]:
        """The types of the results; empty where their layouts decide."""

    @property
    def memory(self) -> Footprint:
        """The bytes that a run takes."""

    @property
    def last_run(self) -> LastRun | None:
        """What is known of the arguments of the last run, if anything."""

    def ir(self, stage: str) -> str:
        """The program at a stage."""

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """The results, where the program runs, of arguments in order."""

    def replay(self, arrays: Sequence[Any], seen: Seen | None = None) -> list[Any] | None:
        """The same where the arguments are those of the last run but for some new arrays; None where they have to be
        checked. Arguments that were `seen` to be the same are not compared again.
        """

    def reads(self, number: int) -> bool:
        """Whether the elements of argument `number` matter, and not its type alone."""
