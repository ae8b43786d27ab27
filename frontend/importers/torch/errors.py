"""The errors of the importer."""

from __future__ import annotations

from oneflow.frontend.core.errors import OneFlowError, SourceLocation


class UnsupportedError(OneFlowError):
    """A PyTorch program has operators, arguments or element types that this library has no counterpart for."""

    def __init__(self, reasons: list[str], location: SourceLocation | None = None) -> None:
        super().__init__(f"no counterpart in the dialect: {'; '.join(reasons)}", location)
        self.reasons = reasons
