"""The parallel range of a kernel: the function over a part of its steps, and the launch that runs all steps.

    func.func private @k(.., %lo, %hi)      runs the steps from lo to hi
    func.func private @k_launch(..)         computes the number of steps, and runs them alone or over the thread pool

Output is MLIR text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from oneflow.lowering.kernels.nodes import Node
from oneflow.lowering.llvm.iteration_space import IterationSpace
from oneflow.lowering.llvm.kernel import Kernel
from oneflow.lowering.llvm.loop_nest import LoopNest
from oneflow.lowering.llvm.writer import Index, Writer, reference
from oneflow.lowering.targets.cpu_parameters import LoopParameters

#: The sizes whose product is the number of parallel steps, with code for them in a writer.
Factors = Callable[[Writer, IterationSpace], list[Index]]


@dataclass
class ParallelRange:
    """The parallel range of a nest. A step has `work` element operations, and one index for each of the factors."""

    nest: LoopNest
    factors: Factors
    work: int

    def __post_init__(self) -> None:
        with self.nest.writer.at_head():
            self._sizes = self.factors(self.nest.writer, self.nest.space)

    def emit(self, step: Callable[[list[Index]], None]) -> str:
        """The kernel's function, in whose loop `step` writes one step for its indices, and the launch."""
        nest, writer = self.nest, self.nest.writer
        with writer.buffered() as body, writer.block(f"scf.for %step = %lo to %hi step {writer.index(1)} {{"):
            step(delinearize(writer, "%step", self._sizes))
        released = [f"func.call @oneflow_rt_release({t}) : (memref<1xi8>) -> ()" for t in nest.temporaries]
        return f"{function_text(nest.kernel, [*writer.head, *body, *released])}\n{self._launch()}"

    def _launch(self) -> str:
        """The launch of the kernel."""
        writer, nest = Writer(), self.nest
        sizes = self.factors(writer, nest.space_of(nest.kernel, nest.structure, writer))
        return launch_text(nest.kernel, writer, writer.product(sizes), self.work)


def delinearize(writer: Writer, index: str, sizes: Sequence[Index]) -> list[Index]:
    """A linear index as one index for each of `sizes`; the last one varies fastest (row-major)."""
    rest, indices = index, []
    for size in reversed(sizes[1:]):
        indices.append(0 if size == 1 else writer.binary("remui", rest, size))
        rest = rest if size == 1 else writer.binary("divui", rest, size)
    return [rest, *reversed(indices)] if sizes else []


def function_text(kernel: Kernel, lines: Iterable[str], is_inlined: bool = True) -> str:
    """The function of a kernel over the steps from `%lo` to `%hi`.

    A function with several calls is not inlined: LLVM's time to schedule a block grows faster than the block.
    """
    attributes = "llvm.linkage = #llvm.linkage<internal>" + ("" if is_inlined else ", llvm.no_inline")
    signature = kernel.signature(("%lo", "%hi"))
    head = f"func.func private {reference(kernel.name)}({signature}) attributes {{{attributes}}} {{"
    return "\n".join([head, *lines, "return", "}"])


def launch_text(kernel: Kernel, writer: Writer, count: Index, work: int) -> str:
    """The function `<kernel>_launch`, which runs `count` parallel steps of `work` element operations each.

    `writer` has the code for `count`. Kernels with enough work get a parallel form, which is declared here and
    defined by `define_launches`.
    """
    enough = kernel.target.kernels.loops.parallel_operations
    arguments = ", ".join([*kernel.names, writer.index(0), writer.index(count)])
    serial = f"func.call {reference(kernel.name)}({arguments}) : ({kernel.types(2)}) -> ()"
    head = f"func.func private {reference(kernel.name + '_launch')}({kernel.signature()}) {{"
    if isinstance(count, int) and (count == 1 or count * work < enough):
        return "\n".join([head, writer.text(), serial, "return", "}"])
    arguments = ", ".join([*kernel.names, writer.index(count)])
    call = f"func.call {reference(kernel.name + '_parallel')}({arguments}) : ({kernel.types(1)}) -> ()"
    grain = max(1, enough // max(work, 1) // 2)
    declared = (
        f"func.func private {reference(kernel.name + '_parallel')}({kernel.types(1)}) "
        f"attributes {{oneflow.launch = {reference(kernel.name)}, oneflow.grain = {grain} : i64}}"
    )
    return "\n".join([declared, head, writer.text(), call, "return", "}"])


def work_of(nodes: Iterable[Node], loops: LoopParameters) -> int:
    """The cost of one step of nodes in element operations."""
    costs = {"math": loops.math_operations, "func": loops.call_operations}
    ops = (o.operation for node in nodes for o in node.body.operations)
    return sum(costs.get(op.name.partition(".")[0], 1) for op in ops)


def steps_of(sizes: Iterable[Index], dynamic_steps: int) -> int:
    """The number of steps of loops; a loop of dynamic size counts as `dynamic_steps`."""
    return math.prod(size if isinstance(size, int) else dynamic_steps for size in sizes)
