"""The kernel of the backward of a layer or RMS normalization: all gradients, each row read once.

    layer_norm_gradients(dy, x, mean, inv_variance, gamma)   ->   dx, and partial sums for dbeta and dgamma

A persistent program computes the gradients of its rows, and partial sums over its rows for the parameters.
`fusion.join_norm_gradients` calls the kernel, and `LaunchConfig.of` chooses programs, rows and warps of the launch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from oneflow.lowering.targets.instructions import WARP
from oneflow.lowering.targets.selection import gpu_target
from oneflow.lowering.triton.codegen.emission import origins
from oneflow.lowering.triton.codegen.kernel import TYPES, Tensor, bytes_of
from oneflow.lowering.triton.codegen.prelude import definitions, preamble
from oneflow.lowering.triton.source import PROGRAM_PLACEHOLDER, Source, Statement, TileLoop
from oneflow.lowering.triton.symbolic_sizes import TileCount, power_of_two
from oneflow.lowering.triton.templates.outline_templates import (
    Template,
    TemplateInstance,
    TemplateKernel,
    register_template,
)

#: The operand that is added to the gradient of the rows.
ADDEND = "_add_to_output"
#: The accumulators of a program's partial sums, by the tensors that these are stored to.
ACCUMULATORS = {"beta": "sum_of_beta", "scale": "sum_of_scale", "dx_sums": "sum_of_dx"}


@dataclass(frozen=True)
class Norm:
    """A normalization.

    Attributes:
        forward: the operator.
        statistics: the results of the operator that its gradients take; the last is 1 / deviation.
        weight: the operand that scales the normalized rows.
        sums: the partial sums for the parameters, in the order of their gradients: `beta` of dy, `scale` of dy times
            the normalized rows.
    """

    forward: str
    statistics: tuple[str, ...]
    weight: str
    sums: tuple[str, ...]

    @property
    def gradient(self) -> str:
        """The operator that computes the gradient of the rows."""
        return f"{self.forward}_grad"

    @property
    def parameter_gradient(self) -> str:
        """The operator that computes the gradients of the parameters."""
        return f"{self.forward}_param_grad"

    @property
    def template(self) -> str:
        """The name of the template, which is not an operator."""
        return f"{self.forward}_gradients"


NORMS = (
    Norm("layer_norm", ("mean", "inv_variance"), "gamma", ("beta", "scale")),
    Norm("rms_norm", ("inv_rms",), "weight", ("scale",)),
)


@dataclass(frozen=True)
class LaunchConfig:
    """The number of programs, the rows of a program's step, and its warps."""

    programs: int
    rows: int
    warps: int

    @staticmethod
    def of(count: int, length: int) -> LaunchConfig:
        """The configuration for `count` rows of `length` elements; persistent programs fill the warps of an SM."""
        block, gpu = power_of_two(length), gpu_target()
        limits = gpu.kernels.norm_gradients
        per_warp = WARP * limits.elements_per_thread
        warps = max(min(block // limits.elements_per_warp, gpu.sm_schedulers), block // per_warp, 1)
        rows = max(per_warp * warps // block, 1)
        return LaunchConfig(min(gpu.sms * limits.warps_per_sm // warps, -(-count // rows)), rows, warps)


def _stages(norm: Norm, length: int, config: LaunchConfig, x: Tensor) -> int:
    """The pipeline stages of loads."""
    block, has_two_reductions = power_of_two(length), len(norm.statistics) > 1
    limits = gpu_target().kernels.norm_gradients
    is_sole = config.warps >= limits.warps_per_sm and block == length and bytes_of(x.element) == 2
    if has_two_reductions and is_sole:
        return limits.sole_program_stages
    return limits.stages if block >= limits.elements_per_warp else 1


def _emit(instance: TemplateInstance, norm: Norm) -> Source:
    """The source: dx, and partial sums of dy and of dy * normal over the rows of each program."""
    tensors = instance.tensors
    sizes, begin = [s.static or 0 for s in tensors["x"].shape], int(instance.attributes["begin"])
    count, length = math.prod(sizes[:begin]), math.prod(sizes[begin:])
    block, config = power_of_two(length), LaunchConfig.of(count, length)
    programs, rows, stages = config.programs, config.rows, _stages(norm, length, config, tensors["x"])
    column_mask = "" if block == length else f"columns < {length}"
    row_mask = "" if count % rows == 0 else f"rows < {count}"
    step = _Step(instance, norm, length, row_mask, column_mask)
    accumulators = {name: variable for name, variable in ACCUMULATORS.items() if name in tensors}
    tile = [
        f"rows = at + tl.arange(0, {rows})[:, None]",
        f"offsets = rows.to(tl.int64) * {length} + columns",
        *step.lines(),
    ]
    body: list[Statement] = [
        f"columns = tl.arange(0, {block})[None, :]",
        *([f"weight = {step.load(norm.weight, 'columns', column_mask)}"] if norm.weight in tensors else []),
        *(f"{name} = tl.full(({rows}, {block}), 0.0, tl.float32)" for name in accumulators.values()),
        TileLoop("at", TileCount.of(count), programs, tuple(tile), rows, stages=stages),
        f"target = {PROGRAM_PLACEHOLDER} * {length} + columns",
        *(
            f"tl.store({tensors[name].name} + target, tl.sum({variable}, 0)[None, :]{_arguments(column_mask)})"
            for name, variable in accumulators.items()
        ),
    ]
    kernel = instance.kernel
    return Source(
        kernel.name, tuple(kernel.parameters), TileCount.of(programs), tuple(body), config.warps,
        origins=origins([kernel.func]), preamble=preamble(step.calls), functions=definitions(step.calls),
    )  # fmt: skip


def _arguments(*texts: str) -> str:
    """The text of further arguments of a call, without the empty ones."""
    return "".join(f", {t}" for t in texts if t)


@dataclass(frozen=True)
class _Step:
    """A step over some rows of `length` elements; a mask is empty where no row or column is masked.

    `calls` are the names of the functions of the prelude that the lines call.
    """

    instance: TemplateInstance
    norm: Norm
    length: int
    row_mask: str
    column_mask: str
    calls: set[str] = field(default_factory=set)

    def lines(self) -> list[str]:
        """The lines of a step: dx of the rows, and the updates of the accumulators."""
        tensors, length = self.instance.tensors, self.length
        element = TYPES[tensors["x"].element]
        mean_term = f" - wdy_sum / {length}" if self._centred else ""
        addend = f" + {self.load(ADDEND, 'offsets', self._mask)}" if ADDEND in tensors else ""
        terms = {"beta": "dy", "scale": "dy * xhat", "dx_sums": _masked("dx", self.row_mask)}
        return [
            f"dy = {self.load('dy', 'offsets', self._mask)}",
            f"x = {self.load('x', 'offsets', self._mask)}",
            "wdy = dy * weight" if self.norm.weight in tensors else "wdy = dy",
            *(self._recomputed_statistics() if "epsilon" in self.instance.attributes else self._loaded_statistics()),
            f"dx = (wdy{mean_term} - xhat * (wdy_xhat_sum / {length})) * rstd{addend}",
            f"tl.store({tensors['dx'].name} + offsets, dx.to(tl.{element}){_arguments(self._mask)})",
            *(f"{ACCUMULATORS[name]} += {value}" for name, value in terms.items() if name in tensors),
        ]

    def _recomputed_statistics(self) -> list[str]:
        """Computes the statistics of the rows together with the sums of `wdy`: the reductions dominate the time."""
        length, epsilon = self.length, self.instance.attributes["epsilon"]
        centring = [
            f"mean, wdy_sum = {self._sums('x', 'wdy')}",
            f"x = {_masked(f'x - mean / {length}', self.column_mask)}",
        ]
        return [
            *(centring if self._centred else []),
            f"square, wdy_xhat_sum = {self._sums('x * x', 'wdy * x')}",
            f"rstd = 1.0 / tl.sqrt(square / {length} + {epsilon!r})",
            f"xhat = {_masked('x * rstd', self.row_mask)}",
            "wdy_xhat_sum = wdy_xhat_sum * rstd",
        ]

    def _loaded_statistics(self) -> list[str]:
        """Loads the statistics of the rows, and computes the sums of `wdy`."""
        *mean, inverse = (self.load(n, "rows", self.row_mask) for n in self.norm.statistics)
        return [
            *(f"x = x - {m}" for m in mean),
            f"rstd = {inverse}",
            "xhat = x * rstd",
            f"wdy_sum, wdy_xhat_sum = {self._sums('wdy', 'wdy * xhat')}"
            if mean
            else f"wdy_xhat_sum = {self._sums('wdy * xhat')}",
        ]

    def _sums(self, *values: str) -> str:
        """The text of the sums of one or two values along rows, in one reduction."""
        operand, function = (values[0], "add") if len(values) == 1 else (f"({', '.join(values)})", "add_pairs")
        self.calls.add(function)
        return f"tl.reduce({operand}, 1, {function}, keep_dims=True)"

    @property
    def _centred(self) -> bool:
        """Whether the normalization subtracts the mean."""
        return len(self.norm.statistics) > 1

    @property
    def _mask(self) -> str:
        """The mask of the elements of the rows."""
        masks = [m for m in (self.row_mask, self.column_mask) if m]
        return masks[0] if len(masks) == 1 else " & ".join(f"({m})" for m in masks)

    def load(self, name: str, offsets: str, mask: str) -> str:
        """The text that loads elements of a tensor at offsets as f32; 0 where masked."""
        masked = _arguments(mask, "0.0") if mask else ""
        return f"tl.load({self.instance.tensors[name].name} + {offsets}{masked}).to(tl.float32)"


def _masked(value: str, mask: str) -> str:
    """The text of a value, 0 where masked."""
    return f"tl.where({mask}, {value}, 0.0)" if mask else value


def _register(norm: Norm) -> None:
    kernel = TemplateKernel("", ("dx", *norm.sums), lambda instance: _emit(instance, norm))
    register_template(norm.template, Template(lambda call: False, (kernel,)))


for _norm in NORMS:
    _register(_norm)
