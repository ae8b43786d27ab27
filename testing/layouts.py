"""The classic layouts of parallel training: data, tensor, ZeRO (FSDP) and mixed parallel.

Each of `LAYOUTS` is a step of training, forward and backward, of which arguments and results alone are annotated. A
layout has the least bytes that a step transfers, and the bytes of actual programs: bytes that all ranks together
receive.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect import oneflow as dialect
from oneflow.dialect import ops as _ops  # noqa: F401  (registers the operators)
from oneflow.dialect._mlir import ir
from oneflow.dialect.builder import Value
from oneflow.dialect.ir_builder import IRBuilder
from oneflow.dialect.nd_sbp import NdSbp, devices, write_nd_sbp
from oneflow.dialect.record import REGISTRY, Call, Registry, infer
from oneflow.dialect.reverse import pull_back
from oneflow.dialect.sbp import B, S, Sbp
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.passes.sbp import annotations as notes
from oneflow.passes.sbp.boxing import Boxing
from oneflow.passes.sbp.collectives import collectives_of
from oneflow.passes.sbp.graph import width_of
from oneflow.passes.to_physical import physical

Shape = tuple[int, ...]
Step = Callable[..., Sequence[Value]]
FLOAT = 4
ROWS, HIDDEN, HEADS, WORDS = 24, 64, 4, 480


class Tape(IRBuilder):
    """A builder that records the calls that it emits, for reverse mode."""

    def __init__(self) -> None:
        super().__init__(REGISTRY)
        self.entries: list[Call] = []

    def emit(self, op: Call, results: Sequence[TensorDesc]) -> list[Value]:
        """Emits the operation, and records the call."""
        values = super().emit(op, results)
        call = Call(op.record, op.inputs, op.attrs)
        self.entries.append(dialect.bind_results(values[0].handle.owner, call, values))
        return values

    def gradients(self, result: Value, cotangent: Value, wrt: Sequence[Value]) -> list[Value]:
        """The gradients of `result` by each of `wrt`."""
        gradients = pull_back(self, tuple(self.entries), [(result, cotangent)], wrt)
        return [g for g in gradients if g is not None]


@dataclass(frozen=True)
class Argument:
    """An argument of a step: `sbp` is its layout along the single mesh axis."""

    shape: Shape
    sbp: Sbp = B
    dtype: dtypes.DType = dtypes.float32


@dataclass(frozen=True)
class AnnotatedStep:
    """A step, the layouts of its arguments and results, and the tensors to be reduced, gathered or scattered.

    `reduced` are the shapes of sums that all ranks need: a rank's part is added up, then spread. `gathered` are those
    of tensors in shards that all ranks need, and of sums of which every rank needs a shard.
    """

    step: Step
    arguments: Mapping[str, Argument]
    results: tuple[Sbp, ...]
    reduced: tuple[Shape, ...] = ()
    gathered: tuple[Shape, ...] = ()

    def fewest_bytes(self, ranks: int) -> int:
        """The least bytes that ranks must receive."""
        elements = 2 * sum(map(math.prod, self.reduced)) + sum(map(math.prod, self.gathered))
        return elements * (ranks - 1) * FLOAT

    def module(self, ranks: int) -> ir.Module:
        """The annotated program, in the current context."""
        with ir.Location.unknown():
            module = ir.Module.create()
            notes.write_mesh(module.operation, (ranks,))
            types = [TensorDesc(a.shape, a.dtype).to_mlir() for a in self.arguments.values()]
            function = self._function(module, types)
        layouts = tuple(a.sbp for a in self.arguments.values())
        for name, sbps in ((notes.ARGUMENTS, layouts), (notes.RESULTS, self.results)):
            lists = [{notes.ND_SBP: write_nd_sbp((s,))} for s in sbps]
            notes.annotate_values(function, name, len(lists), lists.__getitem__)
        return module

    def _function(self, module: ir.Module, types: Sequence[ir.Type]) -> ir.Operation:
        empty = ir.TypeAttr.get(ir.FunctionType.get(types, []))
        attributes = {"sym_name": ir.StringAttr.get("main"), "function_type": empty}
        function = ir.Operation.create(
            "func.func", attributes=attributes, regions=1, ip=ir.InsertionPoint(module.body)
        )
        block = function.regions[0].blocks.append(*types)
        with ir.InsertionPoint(block):
            tape = Tape()
            results = [v.handle for v in self.step(tape, *map(tape.wrap, block.arguments))]
            ir.Operation.create("func.return", operands=results)
        kind = ir.FunctionType.get(types, [v.type for v in results])
        function.attributes["function_type"] = ir.TypeAttr.get(kind)
        return function


def _layers(ops: Tape, x: Value, w: Value, v: Value, dy: Value) -> Sequence[Value]:
    """Two layers, and their gradients by all arguments."""
    y = ops.matmul(ops.gelu(ops.matmul(x, w)), v)
    return [y, *ops.gradients(y, dy, [x, w, v])]


def _attention(ops: Tape, x: Value, q: Value, k: Value, v: Value, out: Value, dy: Value) -> Sequence[Value]:
    """Attention of heads over rows, and its gradients by everything."""
    depth = HIDDEN // HEADS

    def heads(weight: Value) -> Value:
        split: Value = ops.transpose(ops.reshape(ops.matmul(x, weight), shape=[ROWS, HEADS, depth]), perm=[1, 0, 2])
        return split

    scores = ops.batch_matmul(heads(q), heads(k), transpose_b=True, alpha=depth**-0.5)
    mixed = ops.transpose(ops.batch_matmul(ops.softmax(scores), heads(v)), perm=[1, 0, 2])
    y = ops.matmul(ops.reshape(mixed, shape=[ROWS, HIDDEN]), out)
    return [y, *ops.gradients(y, dy, [x, q, k, v, out])]


def _data_parallel(ops: Tape, x: Value, w: Value, v: Value, dy: Value) -> Sequence[Value]:
    """Two layers, and their gradients by the weights."""
    y = ops.matmul(ops.gelu(ops.matmul(x, w)), v)
    return [y, *ops.gradients(y, dy, [w, v])]


def _adam(ops: Tape, x: Value, dy: Value, w: Value, m: Value, v: Value) -> Sequence[Value]:
    """A layer, and a step of Adam with the moments `m` and `v` of its weight."""
    y = ops.gelu(ops.matmul(x, w))
    (dw,) = ops.gradients(y, dy, [w])
    return [y, *ops.adam_update(w, dw, None, None, None, None, None, None, m, v, learning_rate_val=0.1)]


def _vocabulary(ops: Tape, words: Value, table: Value, labels: Value, dloss: Value) -> Sequence[Value]:
    """A language model that is a table of words, its loss by row and the gradient by the table."""
    scores = ops.matmul(ops.embedding(table, words), table, transpose_b=True)
    _, loss = ops.sparse_softmax_cross_entropy(scores, labels)
    return [loss, *ops.gradients(loss, dloss, [table])]


X, WIDE, NARROW = (ROWS, HIDDEN), (HIDDEN, 4 * HIDDEN), (4 * HIDDEN, HIDDEN)
SQUARE, TABLE = (HIDDEN, HIDDEN), (WORDS, HIDDEN)
MANY = (32 * ROWS, HIDDEN)
INDICES = Argument((ROWS,), dtype=dtypes.int32)

LAYOUTS = {
    "Megatron MLP": AnnotatedStep(
        _layers,
        {"x": Argument(X), "w": Argument(WIDE, S(1)), "v": Argument(NARROW, S(0)), "dy": Argument(X)},
        (B, B, S(1), S(0)),
        reduced=(X, X),
    ),
    "Megatron attention": AnnotatedStep(
        _attention,
        {"x": Argument(X), **dict.fromkeys("qkv", Argument(SQUARE, S(1))), "o": Argument(SQUARE, S(0)),
         "dy": Argument(X)},
        (B, B, S(1), S(1), S(1), S(0)),
        reduced=(X, X),
    ),
    "data parallel": AnnotatedStep(
        _data_parallel,
        {"x": Argument(MANY, S(0)), "w": Argument(WIDE), "v": Argument(NARROW), "dy": Argument(MANY, S(0))},
        (S(0), B, B),
        reduced=(WIDE, NARROW),
    ),
    "ZeRO, parameters and moments split": AnnotatedStep(
        _adam,
        {"x": Argument(MANY, S(0)), "dy": Argument((32 * ROWS, 4 * HIDDEN), S(0)),
         **dict.fromkeys("wmv", Argument(WIDE, S(0)))},
        (S(0),) * 4,
        gathered=(WIDE, WIDE),
    ),
    "ZeRO, moments split": AnnotatedStep(
        _adam,
        {"x": Argument(MANY, S(0)), "dy": Argument((32 * ROWS, 4 * HIDDEN), S(0)), "w": Argument(WIDE),
         **dict.fromkeys("mv", Argument(WIDE, S(0)))},
        (S(0), B, S(0), S(0)),
        gathered=(WIDE, WIDE),
    ),
    "vocabulary split, embedding to loss": AnnotatedStep(
        _vocabulary,
        {"words": INDICES, "table": Argument(TABLE, S(0)), "labels": INDICES, "dloss": Argument((ROWS,))},
        (B, S(0)),
        reduced=(X, X, (ROWS,), (ROWS,), (ROWS,)),
    ),
}  # fmt: skip


def planned_bytes(module: ir.Module) -> int:
    """The bytes that boxing plans for the casts of an annotated and boxed program."""
    boxing, total = Boxing(notes.read_mesh(module.operation)), 0
    casts: list[ir.Operation] = []
    dialect.walk(module.operation, lambda op: casts.append(op) if op.name == notes.PARALLEL_CAST else None)
    for op in casts:
        desc = dialect.desc_of(op.operands[0])
        total += boxing.cost(_nd_sbp(op, notes.IN), _nd_sbp(op, notes.OUT), desc.static_shape, width_of(desc))
    return total


def _nd_sbp(cast: ir.Operation, side: str) -> NdSbp:
    """The nd-SBP of a cast's operand (`notes.IN`) or result (`notes.OUT`)."""
    annotated = notes.read_operation(cast, side)
    assert annotated, f"expected {side} on {cast}"
    return annotated[0]


def physical_bytes(module: ir.Module, registry: Registry = REGISTRY) -> int:
    """The bytes that ranks receive in the collectives of their programs, of an annotated and boxed program."""
    mesh = notes.read_mesh(module.operation)
    programs = [physical(module, rank, registry) for rank in range(devices(mesh))]
    return sum(_received(op, registry) for p in programs for op in collectives_of(p, registry))


def _received(op: ir.Operation, registry: Registry) -> int:
    """The bytes that one rank receives from other ranks in a collective."""
    record = dialect.record_of(op, registry)
    call = dialect.operand_call(op, record, dialect.desc_of)
    elements = sum(
        RECEIVED[op.name](math.prod(operand.static_shape), math.prod(result.static_shape), call.attrs)
        for operand, result in zip(call.operands, infer(record, call), strict=True)
    )
    return elements * max(width_of(call.operands[0]), 1)


def _all_reduce(size: int, _: int, attrs: Mapping[str, Any]) -> int:
    """The rank's balanced part from every other rank, then the summed parts of the other ranks."""
    members: int = attrs["members"]
    part: int = size // members + (attrs["index"] < size % members)
    return part * (members - 1) + size - part


def _all_to_all(operand: int, result: int, attrs: Mapping[str, Any]) -> int:
    in_sizes: Sequence[int] = attrs["in_sizes"]
    own = in_sizes[int(attrs["index"])]
    return result - result * own // max(sum(in_sizes), 1)


#: The elements that a rank receives in a collective, from the elements of an operand and of its result.
RECEIVED: dict[str, Callable[[int, int, Mapping[str, Any]], int]] = {
    "oneflow.ccl_all_reduce": _all_reduce,
    "oneflow.ccl_reduce_scatter": lambda operand, result, attrs: result * (attrs["members"] - 1),
    "oneflow.ccl_all_gather": lambda operand, result, attrs: result - operand,
    "oneflow.ccl_all_to_all": _all_to_all,
}


def arrays_for(layout: AnnotatedStep, seed: int = 0) -> list[np.ndarray]:
    """Arguments for a step."""
    rng = np.random.default_rng(seed)
    every = [(a, rng.random(a.shape)) for a in layout.arguments.values()]
    return [(x * (WORDS if a.dtype.kind == "int" else 0.1)).astype(a.dtype.numpy) for a, x in every]
