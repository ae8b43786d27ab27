"""ONNX models as programs of the dialect: the text, and the arrays of the model's constants by name."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

import oneflow
from oneflow.frontend.core.errors import OneFlowError
from oneflow.tools.command import CommandError

SUFFIX = ".onnx"


def import_onnx(path: str, inputs: Mapping[str, np.ndarray] | None = None) -> tuple[str, dict[str, np.ndarray]]:
    """The program of a model; sizes come from `inputs`, which may lack some, else from the model.

    Raises:
        CommandError: the model cannot be read, or uses unsupported features.
    """
    try:
        program = oneflow.from_onnx(path)
        known = {i.name for i in program.inputs}
        shapes = {name: array.shape for name, array in (inputs or {}).items() if name in known}
        module = program.trace(shapes)
    except (ImportError, OSError, OneFlowError) as error:
        raise CommandError(f"{path}: {error}") from None
    return str(module), {name: value.numpy() for name, value in program.state_dict().items()}
