"""The options of a module in a graph: `self.model.to(nn.graph.GraphModule)`."""

from __future__ import annotations

from typing import Any

from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.hooks import Hooks
from oneflow.frontend.tracing.autograd import checkpoint


class GraphModule:
    """The options of one module."""

    def __init__(self, module: Any) -> None:
        self._module = module

    @property
    def activation_checkpointing(self) -> bool:
        """Whether the module is computed again for its gradient, so that its intermediate results are not kept."""
        return "forward" in vars(self._module)

    @activation_checkpointing.setter
    def activation_checkpointing(self, mode: bool) -> None:
        vars(self._module).pop("forward", None)
        if mode:
            vars(self._module)["forward"] = checkpoint(self._module.forward)
        Hooks.invalidate_guards()

    def set_stage(self, stage_id: int | None = None, placement: Any = None) -> None:
        """Refused: the placements of tensors are the stages of a pipeline.

        Raises:
            OneFlowError: always.
        """
        raise fail(
            "expected no stages of modules: move the parameters with module.to_global(placement, sbp), and what the "
            "module is called with by x.to_global(placement, sbp) in build"
        )
