"""Graphs in folders, as OneFlow's `save` writes them: the file of the program, and the arrays of the variables."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from oneflow.dialect.lazy import lazy
from oneflow.frontend.core.errors import OneFlowError
from oneflow.tools.command import CommandError

graphs = lazy("oneflow.frontend.importers.saved.graphs")
variables = lazy("oneflow.frontend.importers.saved.variables")


def saved_program(folder: str) -> tuple[str, dict[str, np.ndarray]]:
    """The file of the program in a folder, and the arrays of all variables there by name.

    Raises:
        CommandError: a variable is malformed.
    """
    try:
        return str(Path(folder) / graphs.PROGRAM), variables.read_variables(Path(folder))
    except OneFlowError as error:
        raise CommandError(str(error)) from None


def import_graph(folder: str) -> tuple[str, dict[str, np.ndarray]]:
    """The program of a saved graph in the dialect, and the arrays of its variables by name.

    Raises:
        CommandError: the folder holds no graph, or has unsupported features.
    """
    try:
        graph = graphs.load_graph(folder)
    except (OSError, OneFlowError) as error:
        raise CommandError(f"cannot read {folder}: {error}") from None
    return str(graph.module), {name: value.numpy() for name, value in graph.state_dict().items()}
