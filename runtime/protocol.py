"""The protocol of compiled programs on the CPU, on a CUDA device and on several ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.runtime.footprint import Footprint

#: Runs a program on arrays of exactly the expected types; returns None if an array needs a conversion or a copy. The
#: caller ensures that an argument that is updated in place shares no memory with another argument.
FastPath = Callable[..., list[Any] | None]


class LastRun(Protocol):
    """The arguments of the last run that an executable keeps."""

    def subset(self, indices: Sequence[int]) -> CachedSubset | None:
        """The arguments at given indices, for the caller to compare; None if one of these arguments is not cached."""


class CachedSubset(Protocol):
    """Some arguments of the last run."""

    def holds(self, arrays: Sequence[Any]) -> bool:
        """Whether `arrays` are these arguments."""


class Executable(Protocol):
    """A compiled program.

    Attributes:
        array: the class of the arrays that need no conversion, and of the results.
        is_remote: whether `array` is in device memory, which NumPy cannot read.
        is_size_specialized: whether there is a program for each set of sizes of the arguments.
    """

    array: ClassVar[type]
    is_remote: ClassVar[bool]
    is_size_specialized: ClassVar[bool]

    @property
    def fast_path(self) -> FastPath | None:
        """The call for arrays of exactly the expected types; None if the executable has no fast path."""

    @property
    def outputs(self) -> Sequence[TensorDesc]:
        """The types of the results."""

    @property
    def memory(self) -> Footprint:
        """The memory footprint of a run."""

    @property
    def last_run(self) -> LastRun | None:
        """The arguments of the last run, if the executable keeps them."""

    def ir(self, stage: str) -> str:
        """The program at a stage."""

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """Runs the program on arguments in order; the results stay on the device of the program."""

    def replay(self, arrays: Sequence[Any], compared: CachedSubset | None = None) -> list[Any] | None:
        """As `run`, for arguments that are mostly the arguments of the last run; None if the arguments have to be
        checked.

        Arguments that the caller has compared (`compared`) are not compared again.
        """

    def reads(self, index: int) -> bool:
        """Whether the program reads the elements of argument `index`, not its type alone."""
