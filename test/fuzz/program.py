"""A program as data: inputs, operator calls, results. A failing program is written to a self-contained script."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oneflow.dialect import ops  # noqa: F401
from oneflow.dialect._mlir import func, ir
from oneflow.dialect.dtypes import BY_NAME, DType
from oneflow.dialect.ir_builder import IRBuilder
from oneflow.dialect.numpy_builder import run_reference
from oneflow.dialect.record import REGISTRY, Call, attribute_values, flatten
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.testing.checks import EDGES


@dataclass(frozen=True)
class Input:
    """An argument: numbers drawn from `[low, high)` by `seed`, some from `EDGES`; or given `values`."""

    shape: tuple[int, ...]
    dtype: str
    seed: int = 0
    low: float = -2.0
    high: float = 2.0
    edges: bool = False
    values: tuple[Any, ...] | None = None

    @property
    def type(self) -> DType:
        """The element type."""
        return BY_NAME[self.dtype]

    def array(self) -> np.ndarray:
        """The numbers."""
        kind, rng = self.type.kind, np.random.default_rng(self.seed)
        if self.values is not None:
            with np.errstate(invalid="ignore", over="ignore"):
                return np.asarray(self.values).astype(self.type.numpy).reshape(self.shape)
        if kind == "bool":
            return rng.random(self.shape) < 0.5
        low = max(self.low, 0.0) if kind == "uint" else self.low
        if kind != "float":
            first = int(np.ceil(low))
            return rng.integers(first, max(int(np.ceil(self.high)), first + 1), self.shape).astype(self.type.numpy)
        numbers = rng.uniform(low, self.high, self.shape)
        if self.edges:
            numbers = np.where(rng.random(self.shape) < 0.2, rng.choice(EDGES, self.shape), numbers)
        with np.errstate(over="ignore"):
            return np.asarray(numbers.astype(self.type.numpy))


@dataclass(frozen=True)
class Step:
    """A call: an operand is the name of a value, None if missing, a tuple if repeated."""

    op: str
    operands: tuple[Any, ...]
    attrs: Mapping[str, Any]
    results: tuple[str, ...]

    def values(self) -> list[str]:
        """The names that the call reads."""
        return flatten(self.operands)

    def attributes(self) -> dict[str, Any]:
        """The attributes in the form of the record, which takes element types instead of names of element types."""
        kinds = {a.name: a.kind.name for a in REGISTRY[self.op].signature.attrs}
        read = {"data_type": BY_NAME.__getitem__, "list_data_type": lambda names: [BY_NAME[n] for n in names]}
        return {k: read.get(kinds.get(k, ""), lambda v: v)(v) for k, v in self.attrs.items()}

    def call(self, values: Mapping[str, Any]) -> Call:
        """The call on the values that `values` maps the names to."""
        record = REGISTRY[self.op]
        slots = record.signature.inputs
        given = [*self.operands, *[None] * (len(slots) - len(self.operands))]
        inputs = {
            a.name: tuple(values[n] for n in g or ()) if a.is_variadic else g and values[g]
            if not isinstance(g, str) else values[g]
            for a, g in zip(slots, given, strict=True)
        }  # fmt: skip
        return Call(record, inputs, attribute_values(record, self.attributes()))


@dataclass(frozen=True)
class Program:
    """Inputs by name, calls in order, the names of the results, and the mode (what the program is checked for).

    Sizes of the `loose` axes of inputs are known at run time only.
    """

    inputs: Mapping[str, Input]
    steps: tuple[Step, ...]
    results: tuple[str, ...]
    loose: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    mode: str = "cpu"

    def arrays(self) -> list[np.ndarray]:
        """The arguments."""
        return [x.array() for x in self.inputs.values()]

    def evaluate(self) -> dict[str, np.ndarray]:
        """Every value by name, computed by the references."""
        values = {name: x.array() for name, x in self.inputs.items()}
        for step in self.steps:
            values.update(zip(step.results, map(np.asarray, run_reference(step.call(values))), strict=True))
        return values

    def module(self) -> ir.Module:
        """The program as a function `main`, in the current context."""
        module = ir.Module.create()
        descs = {n: _described(x, self.loose.get(n, ())) for n, x in self.inputs.items()}
        types = [d.to_mlir() for d in descs.values()]
        entry = func.FuncOp("main", (types, []), ip=ir.InsertionPoint(module.body))
        builder = IRBuilder(ip=ir.InsertionPoint(entry.add_entry_block()))
        values = dict(zip(descs, map(builder.wrap, entry.arguments), strict=True))
        for step in self.steps:
            operands = step.call(values).inputs.values()
            made = builder.call(step.op, *operands, **step.attributes())
            values.update(zip(step.results, made, strict=True))
        results = [values[name].handle for name in self.results]
        func.ReturnOp(results, ip=builder.ip)
        kind = ir.FunctionType.get(types, [r.type for r in results])
        entry.attributes["function_type"] = ir.TypeAttr.get(kind)
        return module

    def needed(self) -> Program:
        """The program without inputs and calls that no result depends on."""
        wanted, steps = set(self.results), list[Any]()
        for step in reversed(self.steps):
            if wanted.intersection(step.results):
                steps.insert(0, step)
                wanted.update(step.values())
        inputs = {n: x for n, x in self.inputs.items() if n in wanted}
        loose = {n: axes for n, axes in self.loose.items() if n in inputs and axes}
        return dataclasses.replace(self, inputs=inputs, steps=tuple(steps), loose=loose)

    def smaller(self) -> Iterator[Program]:
        """Simpler programs, the simplest first: fewer results, inputs in place of calls, no edge values."""
        for name in self.results if len(self.results) > 1 else ():
            yield dataclasses.replace(self, results=(name,)).needed()
        yield from (p for p in (self._ending(s) for s in self.steps[:-1]) if p.results)
        values = self.evaluate()
        for step in reversed(self.steps[:-1]):
            yield self._given(step, values).needed()
        for step in self.steps:
            yield from self._without(step, values)
        if self.mode == "triton":
            yield dataclasses.replace(self, mode="cpu")
        if self.loose:
            yield dataclasses.replace(self, loose={})
        for name, x in self.inputs.items():
            if x.edges:
                yield dataclasses.replace(self, inputs={**self.inputs, name: dataclasses.replace(x, edges=False)})

    def _ending(self, step: Step) -> Program:
        """The program up to a call, with the results of the call."""
        kept = [name for name in step.results if name not in self.results]
        return dataclasses.replace(self, results=tuple(kept)).needed()

    def _given(self, step: Step, values: Mapping[str, np.ndarray]) -> Program:
        """The program with inputs in place of the results of a call."""
        made = {name: given_input(values[name]) for name in step.results}
        steps = tuple(s for s in self.steps if s is not step)
        return dataclasses.replace(self, inputs={**self.inputs, **made}, steps=steps)

    def _without(self, step: Step, values: Mapping[str, np.ndarray]) -> Iterator[Program]:
        """The program with an operand of a call in place of the result of the call."""
        if len(step.results) != 1:
            return
        made = values[step.results[0]]
        for name in dict.fromkeys(step.values()):
            if (values[name].shape, values[name].dtype) == (made.shape, made.dtype):
                renamed = {step.results[0]: name}
                steps = tuple(_renamed(s, renamed) for s in self.steps if s is not step)
                results = tuple(dict.fromkeys(renamed.get(r, r) for r in self.results if r not in self.inputs))
                if steps and not set(results) & set(self.inputs):
                    yield dataclasses.replace(self, steps=steps, results=results).needed()

    def __str__(self) -> str:
        lines = ["Program(", "    inputs={"]
        lines += [f"        {name!r}: {x!r}," for name, x in self.inputs.items()]
        lines += ["    },", "    steps=("]
        lines += [f"        {step!r}," for step in self.steps]
        lines += [
            "    ),",
            f"    results={self.results!r},",
            f"    loose={self.loose!r},",
            f"    mode={self.mode!r},",
            ")",
        ]
        return "\n".join(lines)


def _described(x: Input, loose: Sequence[int]) -> TensorDesc:
    return TensorDesc(tuple(None if i in loose else d for i, d in enumerate(x.shape)), x.type)


def given_input(array: np.ndarray) -> Input:
    """An input with the numbers of an array, in a form that Python code can contain."""
    name = next(n for n, d in BY_NAME.items() if d.numpy == array.dtype)
    flat = array.ravel()
    wide = flat.astype(np.float64) if flat.dtype.kind == "V" else flat
    return Input(array.shape, name, values=tuple(wide.tolist()))


def _renamed(step: Step, names: Mapping[str, str]) -> Step:
    def rename(x: Any) -> Any:
        return tuple(map(rename, x)) if isinstance(x, tuple) else names.get(x, x)

    return dataclasses.replace(step, operands=tuple(map(rename, step.operands)))
