"""Structured control flow in a plan: Python statements that run the plans of bodies.

    s0 = b2
    for step in range(5):
        n0 = b3 if step % 2 == 0 else b7
        body(run, 256, s0, run.part(in1, step * 24), n0)
        s0 = n0

A scan issues the same commands at every run. A condition is read from the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from oneflow.dialect._mlir import ir
from oneflow.lowering.buffer_assignment import scratch_offsets, static_bytes
from oneflow.lowering.linalg.control import Control
from oneflow.lowering.triton.names import identifier

INDENT = "    "


@dataclass
class ControlWriter:
    """Writes call number `number` of an entry, which runs bodies.

    `inputs` and `results` are addresses, `base` is the offset in the workspace of the scratch memory of `size` bytes.
    """

    number: int
    op: ir.Operation
    control: Control
    inputs: Sequence[str]
    results: Sequence[str]
    base: str
    size: int

    def text(self) -> list[str]:
        """The statements."""
        states = self.control.states
        *spare, predicate, workspace = scratch_offsets(self.op, self.control)
        scratch = f"c{self.number}"
        self.result_of = dict(zip(self.control.results, self.results, strict=True))
        self.final = [self.result_of[i] for i in range(states)]
        self.spare = [f"run.part({scratch}, {offset})" for offset in spare]
        self.predicate = f"run.part({scratch}, {predicate})"
        self.workspace = f"{self.base} + {workspace}"
        return [f"{scratch} = run.at({self.base}, {self.size})", *_WRITERS[self.control.form](self)]

    def _names(self, letter: str) -> list[str]:
        """A name for each state."""
        return [f"{letter}{self.number}_{i}" for i in range(self.control.states)]

    def steps(self) -> Iterator[str]:
        """A loop over the steps. The last step writes the results."""
        length, states, step = self.control.length, self.control.states, f"i{self.number}"
        current, target = self._names("s"), self._names("t")
        yield from _assigned(current, self.inputs[:states])
        yield f"for {step} in range({length}):"
        buffers = zip(self.final, self.spare, strict=True)
        yield from _indented(
            _assigned(target, [f"{f} if ({length - 1} - {step}) % 2 == 0 else {s}" for f, s in buffers])
        )
        index = f"({length - 1} - {step})" if self.control.reverse else step
        kept = [n for n in self.control.results if n >= self.control.outputs]
        for result in kept:
            state, size = current[result - self.control.outputs], self._element_bytes(self._result_type(result))
            yield f"{INDENT}run.copy({self._result_element(result, index)}, {state}, {size})"
        elements = enumerate(self.inputs[states : states + self.control.sequences], states)
        arguments = [self._element(x, self.op.operands[i].type, index) for i, x in elements]
        outputs = [self._result_element(result, index) for result in range(states, self.control.outputs)]
        constants = self.inputs[states + self.control.sequences :]
        yield INDENT + self._run(0, [*current, *arguments, *constants], [*target, *outputs])
        yield from _indented(_assigned(current, target))
        yield from self._copy_states(current) if length == 0 else ()

    def loop_while(self) -> Iterator[str]:
        """A loop that runs the condition, then the body."""
        states = self.control.states
        constants = self.inputs[states:]
        current, target, spare = (self._names(letter) for letter in "sto")
        yield from _assigned([*current, *target, *spare], [*self.inputs[:states], *self.final, *self.spare])
        yield self._run(0, [*current, *constants], [self.predicate])
        yield f'while run.read({self.predicate}, 0, "i1"):'
        yield INDENT + self._run(1, [*current, *constants], target)
        yield from _indented(_assigned([*current, *target, *spare], [*target, *spare, *target]))
        yield INDENT + self._run(0, [*current, *constants], [self.predicate])
        yield from self._copy_states(current)

    def branch(self) -> Iterator[str]:
        """A conditional statement that runs one of the two bodies."""
        predicate, *operands = self.inputs
        yield f'if run.read({predicate}, 0, "i1"):'
        yield INDENT + self._run(0, operands, self.results)
        yield "else:"
        yield INDENT + self._run(1, operands, self.results)

    def _run(self, body: int, arguments: Sequence[str], outputs: Sequence[str]) -> str:
        """The call of the plan of the body with index `body`."""
        name = identifier(self.control.functions[body])
        return f"{name}({', '.join(['run', self.workspace, *arguments, *outputs])})"

    def _copy_states(self, current: Sequence[str]) -> Iterator[str]:
        """Copies states to the results, unless these are in place."""
        for index, (state, final) in enumerate(zip(current, self.final, strict=True)):
            size = static_bytes(self.op.operands[index].type) or 0
            yield f"if {state} != {final}:"
            yield f"{INDENT}run.copy({final}, {state}, {size})"

    def _result_type(self, result: int) -> ir.Type:
        return self.op.results[self.control.results.index(result)].type

    def _result_element(self, result: int, index: str) -> str:
        return self._element(self.result_of[result], self._result_type(result), index)

    def _element_bytes(self, stacked: ir.Type) -> int:
        return (static_bytes(stacked) or 0) // max(self.control.length, 1)

    def _element(self, address: str, stacked: ir.Type, index: str) -> str:
        """The address of an element of a sequence."""
        return f"run.part({address}, {index} * {self._element_bytes(stacked)})"


def _assigned(names: Sequence[str], values: Sequence[str]) -> list[str]:
    """One simultaneous assignment to all names."""
    return [f"{', '.join(names)} = {', '.join(values)}"] if names else []


def _indented(lines: Sequence[str]) -> list[str]:
    return [INDENT + line for line in lines]


_WRITERS: Mapping[str, Callable[[ControlWriter], Iterator[str]]] = {
    "steps": ControlWriter.steps,
    "while": ControlWriter.loop_while,
    "branch": ControlWriter.branch,
}
