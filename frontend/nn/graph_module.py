"""The options of a module in a graph: `self.model.to(nn.graph.GraphModule)`."""

from __future__ import annotations

from typing import Any

from oneflow.dialect.nd_sbp import NdSbp
from oneflow.dialect.sbp import B, S
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.hooks import Hooks
from oneflow.frontend.core.pytree import flatten
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.global_tensor import stated_layout, to_global
from oneflow.frontend.nn.zero import split_of
from oneflow.frontend.tracing.activation_checkpointing import checkpoint
from oneflow.frontend.tracing.capture import layout_of
from oneflow.runtime.global_array import Placement


class GraphModule:
    """The options of one module; `version` counts their changes."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._checkpoints = False
        self._stage: int | None = None
        self._placement: Placement | None = None
        self.version = 0

    @property
    def activation_checkpointing(self) -> bool:
        """Whether the module is computed again for its gradient, so that its intermediate results are not kept."""
        return self._checkpoints

    @activation_checkpointing.setter
    def activation_checkpointing(self, mode: bool) -> None:
        self._checkpoints = bool(mode)
        self._changed()

    def set_stage(self, stage_id: int | None = None, placement: Placement | None = None) -> None:
        """Makes the module a stage of a pipeline.

        Tensors that the module is called with are moved to the placement of the stage; `module.to_global(placement,
        sbp)` moves the parameters. A graph with several stages that accumulates gradients runs as many micro-batches
        at the same time.

        Args:
            stage_id: the index of the stage, from 0; None for none.
            placement: the ranks of the stage; None if the program moves the tensors.

        Raises:
            OneFlowError: `stage_id` is no whole number of at least 0, or `placement` is no placement.
        """
        if stage_id is not None and (isinstance(stage_id, bool) or not isinstance(stage_id, int) or stage_id < 0):
            raise fail(f"expected stage_id to be a number of a stage from 0, got {stage_id!r}")
        if placement is not None and not isinstance(placement, Placement):
            raise fail(f"expected a placement such as flow.placement('cpu', ranks=[0, 1]), got {placement!r}")
        self._stage, self._placement = stage_id, placement
        self._changed()

    @property
    def stage_id(self) -> int | None:
        """The index of the stage of a pipeline that the module is; None for none."""
        return self._stage

    @stage_id.setter
    def stage_id(self, value: int | None) -> None:
        self.set_stage(value, self._placement)

    @property
    def stage_placement(self) -> Placement | None:
        """The ranks of the stage; None if the program moves tensors."""
        return self._placement

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The computation of the module under the options."""
        if self._placement is not None:
            leaves, tree = flatten((args, kwargs))
            moved = [self._on_stage(x, self._placement) if isinstance(x, Tensor) else x for x in leaves]
            args, kwargs = tree.unflatten(moved)
        function = self._module.forward
        return checkpoint(function)(*args, **kwargs) if self._checkpoints else function(*args, **kwargs)

    def _on_stage(self, x: Tensor, placement: Placement) -> Tensor:
        """A tensor on the placement of the stage."""
        known = stated_layout(x)
        keeps = known is not None and len(known[1]) == len(placement.mesh)
        return to_global(x, placement, known[1] if known and keeps else self._batch_layout(x.rank, placement))

    def _batch_layout(self, rank: int, placement: Placement) -> NdSbp:
        """The layout of an argument: split along the batch over mesh axes that replicate all parameters."""
        known = [
            split.whole if (split := split_of(p)) else layout_of(p)[1]
            for p in self._module.parameters()
            if layout_of(p) is not None and layout_of(p)[0] == placement
        ]
        is_replicated = (all(nd[axis] == B for nd in known) for axis in range(len(placement.mesh)))
        return tuple(S(0) if rank and replicated else B for replicated in is_replicated)

    def _changed(self) -> None:
        self.version += 1
        Hooks.invalidate_guards()
