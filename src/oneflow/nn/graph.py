"""Graphs and their options: `flow.nn.graph`."""

from oneflow.frontend.nn.graph import Graph
from oneflow.frontend.nn.graph_config import GraphConfig
from oneflow.frontend.nn.graph_module import GraphModule

__all__ = ["Graph", "GraphConfig", "GraphModule"]
