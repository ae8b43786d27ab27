"""`flow.boxing.nccl`: OneFlow's settings of collectives.

The functions are taken for programs of OneFlow and change nothing: `oneflow-join-boxing` joins collectives by a cost
model, and the collectives of a program on GPUs run on the stream of the program.
"""

from __future__ import annotations

__all__ = [
    "allow_fuse_all_gather", "allow_fuse_all_reduce", "allow_fuse_broadcast", "allow_fuse_mixed_ops",
    "allow_fuse_reduce", "allow_fuse_reduce_scatter", "disable_group_boxing_by_dst_parallel", "enable_all_to_all",
    "enable_use_buffer_to_fuse_all_reduce", "enable_use_compute_stream", "set_fusion_max_ops_num",
    "set_fusion_threshold_mbytes",
]  # fmt: skip


def _switch(val: bool) -> None:
    """Changes nothing; see the module."""


def _amount(val: int) -> None:
    """Changes nothing; see the module."""


allow_fuse_all_gather = allow_fuse_all_reduce = allow_fuse_broadcast = allow_fuse_mixed_ops = _switch
allow_fuse_reduce = allow_fuse_reduce_scatter = disable_group_boxing_by_dst_parallel = _switch
enable_all_to_all = enable_use_buffer_to_fuse_all_reduce = enable_use_compute_stream = _switch
set_fusion_max_ops_num = set_fusion_threshold_mbytes = _amount
