"""Errors of models, which name the node and its operator."""

from __future__ import annotations

from collections.abc import Iterable

from oneflow.frontend.core.errors import OneFlowError


class OnnxError(OneFlowError):
    """A model that is malformed, or that uses unsupported features."""


class ValueNeeded(Exception):
    """A shape or a branch depends on the values of tensors that a trace has no values of.

    `inputs` are the inputs of the model that these values are computed from.
    """

    def __init__(self, inputs: Iterable[str], what: str) -> None:
        super().__init__(f"the values of {what} are required to determine shapes")
        self.inputs = frozenset(inputs)
