"""Tables of a job of several processes: a process has the rows of the ids whose remainder is its rank.

Ids in a global tensor are looked up by every process. A process computes the embeddings of its own ids and zeros for
other ids, so that the shards are partial sums; it updates the rows of its own ids alone.
"""

from __future__ import annotations

from typing import Any

from oneflow.dialect.sbp import B, P
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.frontend import env
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.global_tensor import FromLocalShard, to_global
from oneflow.frontend.tracing.capture import layout_of
from oneflow.runtime.shards import MeshLayout


def expect_all_ranks(ids: Any, name: str) -> None:
    """Checks that ids are on all ranks of the job.

    Raises:
        ValueError: rows of other ranks would be missing.
    """
    placement, size = ids.placement, env.get_world_size()
    if size > 1 and len(placement.members) != size:
        raise ValueError(f"expected ids of {name!r} on all {size} ranks of the job, got ids on {placement}")


def whole(x: Any) -> Tensor:
    """All elements of a global tensor as a local tensor; a local tensor as it is."""
    layout = layout_of(x)
    if layout is None:
        return x  # type: ignore[no-any-return]
    local: Tensor = to_global(x, layout[0], (B,) * len(layout[1])).to_local()
    return local


def owned(ids: Tensor) -> Tensor:
    """Whether this process has the row of each id."""
    return F.eq(F.remainder(ids, env.get_world_size()), env.get_rank())


def sum_of_shards(shard: Tensor, like: Any) -> Tensor:
    """The sum of the shards of all processes, with the placement and, for whole tensors and splits, the layout of
    `like`.
    """
    placement, nd = layout_of(like)
    desc = TensorDesc(shard.shape, shard.dtype)
    partial: Tensor = FromLocalShard.apply(shard, placement, MeshLayout(desc, (P,) * len(nd)))
    return to_global(partial, placement, tuple(s if s.kind == "S" else B for s in nd))
