"""The options of a `Graph`: `self.config`."""

from __future__ import annotations

from typing import Any

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType
from oneflow.frontend.core.errors import fail
from oneflow.frontend.nn.zero import ZeroOptions

#: Hints to OneFlow's compiler that change no result. The compiler of this project decides by itself.
HINTS = """
    allow_fuse_add_to_output allow_fuse_cast_scale allow_fuse_model_update_ops enable_auto_memory enable_auto_parallel
    enable_auto_parallel_ignore_user_sbp_config enable_auto_parallel_sbp_collector enable_auto_parallel_trunk_algo
    enable_choose_best_memory_allocation enable_compress_memory enable_cudnn_conv_heuristic_search_algo
    enable_fused_model_update_cast enable_multi_tensor_update enable_straighten_algorithm
    set_auto_parallel_computation_cost_ratio set_auto_parallel_wait_time set_outputs_buffer_size
""".split()


class GraphConfig:
    """The options of a graph.

    `hints` keeps the options that are hints to OneFlow's compiler, by name; `training` says whether the graph has an
    optimizer.
    """

    def __init__(self) -> None:
        self.amp_dtype: DType | None = None
        self.accumulation_steps = 1
        self.zero: ZeroOptions | None = None
        self.training = False
        self.hints: dict[str, Any] = {}

    def enable_amp(self, mode: bool = True, *, dtype: DType = dtypes.float16) -> None:
        """Has `build` run within an autocast to a 16-bit type.

        Raises:
            OneFlowError: the type is another.
        """
        if dtype not in (dtypes.float16, dtypes.bfloat16):
            raise fail(f"expected dtype to be flow.float16 or flow.bfloat16, got {dtype!r}")
        self.amp_dtype = dtype if mode else None

    def enable_zero(
        self, mode: bool = True, *, stage: int = 2, shard_min_size: int = 1024, shard_restore_level: int = 1
    ) -> None:
        """Shards replicated parameters, their gradients and the states of the optimizers over the ranks (ZeRO).

        From the first call of the graph on, parameters have layouts with splits. Values are those of data
        parallelism. `docs/distributed.md` says what each stage splits.

        Args:
            mode: whether to split; parameters that are split already stay split.
            stage: 1 to 3.
            shard_min_size: the least number of elements of a shard; parameters with smaller shards stay whole.
            shard_restore_level: 0: the computation reads split parameters in any layout; 1 or 2: in the layout before
                the split.

        Raises:
            OneFlowError: a number is out of range.
        """
        for name, value, known in (
            ("stage", stage, (1, 2, 3)),
            ("shard_restore_level", shard_restore_level, (0, 1, 2)),
        ):
            if value not in known:
                raise fail(f"expected {name} to be one of {', '.join(map(str, known))}, got {value!r}")
        if not shard_min_size > 0:
            raise fail(f"expected shard_min_size of at least 1, got {shard_min_size!r}")
        self.zero = ZeroOptions(stage, shard_min_size, shard_restore_level > 0) if mode else None

    def set_zero_redundancy_optimizer_mode(self, mode: str = "distributed_split") -> None:
        """`enable_zero()` for the mode "distributed_split", `enable_zero(False)` for "none".

        Raises:
            OneFlowError: the mode is another.
        """
        if mode not in ("distributed_split", "none"):
            raise fail(f'expected the mode "distributed_split" or "none", got {mode!r}; enable_zero has the stages')
        self.enable_zero(mode == "distributed_split")

    def set_gradient_accumulation_steps(self, value: int = 1) -> None:
        """Has `build` run for each of `value` micro-batches, equal parts of the batch, before the optimizers take a
        step.

        Arguments are cut along their first dimension. Each loss is divided by `value` before `backward`. Results are
        joined along their first dimension; those without dimensions become a vector.

        Raises:
            OneFlowError: `value` is no whole number of at least 1.
        """
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise fail(f"expected a number of steps of at least 1 for gradient accumulation, got {value!r}")
        self.accumulation_steps = value


def _hint(name: str) -> Any:
    def method(self: GraphConfig, value: Any = True) -> None:
        self.hints[name] = value

    method.__name__, method.__doc__ = name, "A hint to OneFlow's compiler, stored without effect on results."
    return method


for _name in HINTS:
    setattr(GraphConfig, _name, _hint(_name))
