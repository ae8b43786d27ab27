"""The transfer of a tensor from one placement to another (cross-mesh resharding), and its size."""

from __future__ import annotations

import math
from dataclasses import dataclass

from oneflow.dialect.nd_sbp import NdSbp, Region, local_region
from oneflow.passes.sbp.submeshes import Submesh


@dataclass(frozen=True)
class PlacementTransfer:
    """The placements of a transfer, and the layout on the target."""

    source: Submesh
    target: Submesh
    layout: NdSbp

    def elements(self, shape: tuple[int, ...], source_layout: NdSbp) -> int:
        """The elements that ranks of the target need and do not have, for a tensor of this layout on the source."""
        return sum(
            self._missing(shape, source_layout, target_index, rank)
            for target_index, rank in enumerate(self.target.members)
        )

    def _missing(self, shape: tuple[int, ...], source_layout: NdSbp, target_index: int, rank: int) -> int:
        need = local_region(shape, self.layout, self.target.mesh, target_index)
        source_index = self.source.index_of(rank)
        have = None if source_index is None else local_region(shape, source_layout, self.source.mesh, source_index)
        return math.prod(n for _, n in need) - (0 if have is None else _common(need, have))


def _common(one: Region, other: Region) -> int:
    """The elements that two regions share."""
    pairs = zip(one, other, strict=True)
    return math.prod(max(min(a + m, b + n) - max(a, b), 0) for (a, m), (b, n) in pairs)
