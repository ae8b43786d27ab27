"""Failed runs of programs on the CPU: the results that a run has allocated are freed, and its error is raised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.runtime import native, objects
from oneflow.runtime.external import External
from oneflow.runtime.failures import KernelError, out_of_bounds_error, size_error
from oneflow.runtime.program_source import ProgramSource
from oneflow.runtime.results import ResultFormat

#: The statuses of a run: an index is out of bounds, memory ran out, an external kernel failed.
_OUT_OF_BOUNDS, _NO_MEMORY, _KERNEL_FAILED = 1, 3, 4


@dataclass(frozen=True)
class FailedRuns:
    """What the errors of a program's runs need.

    The fast path of a program refers to this object and not to the executable, which refers to the fast path, so that
    code is unloaded with the last reference. The fast path also runs without the executable, so code and external
    kernels are parts of this object.
    """

    code: objects.Code
    source: ProgramSource
    externals: Sequence[External]
    sites: Sequence[str]
    arguments: Sequence[str]
    outputs: Sequence[TensorDesc]
    formats: Sequence[ResultFormat]
    donated: Mapping[int, int]
    num_input_slots: int

    def fail(self, io: Any, status: int, failure: Any) -> None:
        """Frees the results that a failed run has allocated, and raises its error.

        Args:
            io: the slots of arguments and results.
            status: the status of the run.
            failure: the failure words.

        Raises:
            MemoryError: memory ran out.
            RunError: the run failed otherwise.
        """
        slot, updated_names = self.num_input_slots, []
        for index, form in enumerate(self.formats):
            if index not in self.donated:
                native.library().oneflow_rt_free(io[slot])
            elif io[slot]:
                updated_names.append(repr(self.arguments[self.donated[index]]))
            slot += 1 + form.dynamic
        raise self._error(
            status, failure, f"; updated in place before: {', '.join(updated_names)}" if updated_names else ""
        )

    def _error(self, status: int, failure: Any, updated: str) -> Exception:
        """The error of a failed run; `updated` names the arguments that the run had updated."""
        if status == _NO_MEMORY:
            return MemoryError(
                f"expected memory for the program's buffers ({failure[1]} bytes), the system has less; compute fewer "
                f"elements at once than results of {', '.join(map(str, self.outputs))} need{updated}"
            )
        site, got, wanted = failure
        if status == _KERNEL_FAILED:
            failed = self.externals[site]
            text = f"{failed.call.error(failed.kernel.error())}{self.source.call_locations()[site]}"
            return KernelError(text + updated)
        make = out_of_bounds_error if status == _OUT_OF_BOUNDS else size_error
        return make(self.sites[site], got, wanted, updated)
