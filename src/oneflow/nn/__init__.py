"""Neural networks: modules, losses, `functional`, `init`, `utils`."""

from oneflow.frontend import api  # noqa: F401  (gives tensors their methods)
from oneflow.frontend.nn import convolution, images, init, layers, quantized_convolution, readers, recurrent
from oneflow.frontend.nn import stateless, transformer
from oneflow.frontend.nn.attention import MultiheadAttention
from oneflow.frontend.nn.containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from oneflow.frontend.nn.convolution import *  # noqa: F403
from oneflow.frontend.nn.graph import Graph
from oneflow.frontend.nn.images import *  # noqa: F403
from oneflow.frontend.nn.layers import *  # noqa: F403
from oneflow.frontend.nn.module import Module, Parameter
from oneflow.frontend.nn.quantized_convolution import *  # noqa: F403
from oneflow.frontend.nn.readers import *  # noqa: F403
from oneflow.frontend.nn.recurrent import *  # noqa: F403
from oneflow.frontend.nn.stateless import *  # noqa: F403
from oneflow.frontend.nn.transformer import *  # noqa: F403
from oneflow.nn import functional, graph, image, parallel, parameter, utils

__all__ = [
    "Graph", "Module", "ModuleDict", "ModuleList", "MultiheadAttention", "Parameter", "ParameterDict",
    "ParameterList", "Sequential", "functional", "graph", "image", "init", "parallel", "parameter", "utils",
]  # fmt: skip
__all__ += convolution.__all__
__all__ += images.__all__
__all__ += layers.__all__
__all__ += quantized_convolution.__all__
__all__ += readers.__all__
__all__ += recurrent.__all__
__all__ += stateless.__all__
__all__ += transformer.__all__
