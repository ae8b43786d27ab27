"""Structured control flow in a plan: blocks that run the plans of bodies.

Input is a call of bodies, output the text of its blocks. The states of a loop are double-buffered, in the memory of
the result and in the scratch memory; the first step reads the initial states where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from oneflow.dialect._mlir import ir
from oneflow.lowering.buffer_assignment import scratch_offsets, static_bytes
from oneflow.lowering.linalg.control import Control
from oneflow.lowering.llvm.plan_symbols import ADDRESS, copy_text, plan_symbol
from oneflow.lowering.llvm.writer import Writer, reference


@dataclass
class ControlWriter:
    """Writes one call that runs bodies. `inputs` and `results` are addresses.

    `stop_if_failed` writes the branch that ends the run after a body has failed.
    """

    writer: Writer
    op: ir.Operation
    control: Control
    inputs: Sequence[str]
    results: Sequence[str]
    scratch: str
    external: str
    stop_if_failed: Callable[[], None]

    def emit(self) -> None:
        """Writes the blocks."""
        self.states = self.control.states
        self.result_of = dict(zip(self.control.results, self.results, strict=True))
        *alternate, predicate, workspace = scratch_offsets(self.op, self.control)
        self.alternate = [self._at(self.scratch, offset) for offset in alternate]
        self.predicate, self.workspace = self._at(self.scratch, predicate), self._at(self.scratch, workspace)
        _WRITERS[self.control.form](self)

    def scan(self) -> None:
        """A block for each step. The buffers of the states are chosen so that the last step writes the results."""
        writer, length = self.writer, self.control.length
        initial = list(self.inputs[: self.states])
        start, carried = self._loop([("index", writer.index(0)), *((ADDRESS, name) for name in initial)])
        step, *states = carried
        has_step = writer.op(f"arith.cmpi ult, {step}, {writer.index(length)} : index")
        after = self._branch(has_step)
        index = writer.binary("subi", length - 1, step) if self.control.reverse else step
        left = writer.binary("subi", length - 1, step)
        writes_result = writer.op(f"arith.cmpi eq, {writer.binary('remui', left, 2)}, {writer.index(0)} : index")
        targets = [
            writer.op(f"arith.select {writes_result}, {self.result_of[i]}, {self.alternate[i]} : {ADDRESS}")
            for i in range(self.states)
        ]
        self._store_states(states, index)
        elements = self.inputs[self.states : self.states + self.control.sequences]
        arguments = [self._element(x, self.op.operands[self.states + i].type, index) for i, x in enumerate(elements)]
        constants = self.inputs[self.states + self.control.sequences :]
        self._run(0, [*states, *arguments, *constants], [*targets, *self._outputs(index)])
        following = writer.op(f"arith.addi {step}, {writer.index(1)} : index")
        self._jump(start, [("index", following), *((ADDRESS, name) for name in targets)])
        writer.line(f"{after}:")
        if length == 0:
            self._copy_states(initial)

    def while_loop(self) -> None:
        """A block for the condition and one for the body."""
        writer = self.writer
        initial, constants = list(self.inputs[: self.states]), self.inputs[self.states :]
        final = [self.result_of[i] for i in range(self.states)]
        start, carried = self._loop([(ADDRESS, name) for name in (*initial, *final, *self.alternate)])
        states, target, spare = (carried[n * self.states : (n + 1) * self.states] for n in range(3))
        self._run(0, [*states, *constants], [self.predicate])
        after = self._branch(self._load(self.predicate))
        self._run(1, [*states, *constants], target)
        self._jump(start, [(ADDRESS, name) for name in (*target, *spare, *target)])
        writer.line(f"{after}:")
        self._copy_states(states)

    def conditional(self) -> None:
        """A block for each body."""
        predicate, *operands = self.inputs
        otherwise, after = self._branch(self._load(predicate)), self._label()
        self._run(0, operands, self.results)
        self.writer.line(f"cf.br {after}")
        self.writer.line(f"{otherwise}:")
        self._run(1, operands, self.results)
        self.writer.line(f"cf.br {after}")
        self.writer.line(f"{after}:")

    def _run(self, body: int, arguments: Sequence[str], outputs: Sequence[str]) -> None:
        """Runs the plan of the body with index `body`."""
        names = [*arguments, *outputs, self.workspace, self.external]
        types = ", ".join([ADDRESS] * len(names))
        callee = plan_symbol(self.control.functions[body])
        self.writer.line(f"func.call {reference(callee)}({', '.join(names)}) : ({types}) -> ()")
        self.stop_if_failed()

    def _store_states(self, states: Sequence[str], index: str) -> None:
        """Copies the states before a step to the results that have the states of all steps."""
        last = max(self.result_of) + 1 if self.result_of else 0
        first = self.control.outputs
        for result in range(first, last):
            if result in self.result_of:
                state = states[result - first]
                size = self.writer.index(self._element_bytes(self._result_type(result)))
                self.writer.line(copy_text(self._result_element(result, index), state, size))

    def _copy_states(self, states: Sequence[str]) -> None:
        """Copies states to the results, unless a state is in the memory of its result."""
        for index, state in enumerate(states):
            final, size = self.result_of[index], static_bytes(self.op.operands[index].type) or 0
            pair = [self.writer.op(f"llvm.ptrtoint {p} : {ADDRESS} to i64") for p in (state, final)]
            same = self.writer.op(f"arith.cmpi eq, {pair[0]}, {pair[1]} : i64")
            count = self.writer.op(f"arith.select {same}, {self.writer.index(0)}, {self.writer.index(size)} : index")
            self.writer.line(copy_text(final, state, count))

    def _outputs(self, index: str) -> list[str]:
        """The addresses of the results of a step that are no states."""
        return [self._result_element(result, index) for result in range(self.states, self.control.outputs)]

    def _result_element(self, result: int, index: str) -> str:
        return self._element(self.result_of[result], self._result_type(result), index)

    def _result_type(self, result: int) -> ir.Type:
        return self.op.results[self.control.results.index(result)].type

    def _element_bytes(self, stacked: ir.Type) -> int:
        return (static_bytes(stacked) or 0) // max(self.control.length, 1)

    def _element(self, pointer: str, stacked: ir.Type, index: str) -> str:
        """The address of an element of a sequence."""
        offset = self.writer.index(self.writer.mul(index, self._element_bytes(stacked)))
        wide = self.writer.op(f"arith.index_cast {offset} : index to i64")
        return self.writer.op(f"llvm.getelementptr {pointer}[{wide}] : ({ADDRESS}, i64) -> {ADDRESS}, i8")

    def _at(self, pointer: str, offset: int) -> str:
        constant = self.writer.constant(str(offset), "i64")
        return self.writer.op(f"llvm.getelementptr {pointer}[{constant}] : ({ADDRESS}, i64) -> {ADDRESS}, i8")

    def _load(self, pointer: str) -> str:
        """A bool in memory."""
        value = self.writer.op(f"llvm.load {pointer} : {ADDRESS} -> i8")
        return self.writer.op(f"arith.cmpi ne, {value}, {self.writer.constant('0', 'i8')} : i8")

    def _label(self) -> str:
        return f"^at{self.writer.fresh()[1:]}"

    def _loop(self, initial: Sequence[tuple[str, str]]) -> tuple[str, list[str]]:
        """Begins the first block of a loop; returns its label and the values that it carries."""
        label, names = self._label(), [self.writer.fresh() for _ in initial]
        self._jump(label, initial)
        carried = ", ".join(f"{name}: {kind}" for name, (kind, _) in zip(names, initial, strict=True))
        self.writer.line(f"{label}({carried}):" if carried else f"{label}:")
        return label, names

    def _jump(self, label: str, values: Sequence[tuple[str, str]]) -> None:
        names, types = (", ".join(part) for part in ([v for _, v in values], [t for t, _ in values]))
        self.writer.line(f"cf.br {label}({names} : {types})" if values else f"cf.br {label}")

    def _branch(self, condition: str) -> str:
        """Begins a block that runs where `condition` is true; returns the label of the other block."""
        yes, no = self._label(), self._label()
        self.writer.line(f"cf.cond_br {condition}, {yes}, {no}")
        self.writer.line(f"{yes}:")
        return no


_WRITERS: Mapping[str, Callable[[ControlWriter], None]] = {
    "steps": ControlWriter.scan,
    "while": ControlWriter.while_loop,
    "branch": ControlWriter.conditional,
}
