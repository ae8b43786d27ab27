"""ONNX's backend interface: `prepare`, `run_model`, `run_node` and `supports_device`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, helper
from onnx.backend.base import Backend, BackendRep

from oneflow.frontend.core.devices import device as named_device
from oneflow.frontend.importers.onnx.program import OnnxProgram, from_onnx
from oneflow.frontend.importers.onnx.types import NUMBERS

#: ONNX's names of devices by the part before the colon.
_DEVICES = {"CPU": "cpu", "CUDA": "cuda"}


def _device(name: str) -> str:
    kind, colon, number = name.partition(":")
    return f"{_DEVICES.get(kind, kind.lower())}{colon}{number}"


class Prepared(BackendRep):  # type: ignore[misc]  # ONNX's classes are not typed
    """A model that is ready to run."""

    def __init__(self, program: OnnxProgram) -> None:
        self.program = program

    def run(self, inputs: Any, **options: Any) -> tuple[Any, ...]:
        """The results for inputs, in order or by name."""
        by_name = isinstance(inputs, Mapping)
        args = () if by_name else inputs if isinstance(inputs, (list, tuple)) else (inputs,)
        feeds = self.program.bind(args, dict(inputs) if by_name else {})
        return tuple(self.program.run(feeds, **options))


class OneFlowBackend(Backend):  # type: ignore[misc]  # ONNX's classes are not typed
    """Runs ONNX models on this package; see `onnx.backend.base.Backend`."""

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **options: Any) -> bool:
        """Whether a model can be read; its operators are looked up when it runs."""
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **options: Any) -> Prepared:
        """A model that is ready to run."""
        device_type = _device(device)
        return Prepared(from_onnx(model, device=None if device_type == "cpu" else device_type))

    @classmethod
    def run_model(cls, model: ModelProto, inputs: Any, device: str = "CPU", **options: Any) -> tuple[Any, ...]:
        """The results of a model for inputs."""
        return cls.prepare(model, device).run(inputs, **options)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **options: Any,
    ) -> tuple[Any, ...]:
        """The results of one node for inputs."""
        values = list(inputs.values()) if isinstance(inputs, Mapping) else list(inputs)
        names = list(inputs) if isinstance(inputs, Mapping) else [name for name in node.input if name]
        arrays = [
            helper.make_tensor_value_info(name, NUMBERS[np.asarray(v).dtype.name], np.shape(v))
            for name, v in zip(names, values, strict=True)
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        version = int(options.pop("opset_version", onnx.defs.onnx_opset_version()))
        imports = [helper.make_opsetid(node.domain, version)]
        model = helper.make_model(helper.make_graph([node], "node", arrays, outputs), opset_imports=imports)
        return cls.run_model(model, values, device, **options)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether models can run on a device of this name, such as `CPU` or `CUDA:0`."""
        try:
            named_device(_device(device))
        except ValueError:
            return False
        return True


prepare = OneFlowBackend.prepare
run_model = OneFlowBackend.run_model
run_node = OneFlowBackend.run_node
supports_device = OneFlowBackend.supports_device
