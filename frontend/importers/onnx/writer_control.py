"""Rows of the writer's table for structured control flow: `Scan`, `Loop` and `If`, whose graphs read outer values."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.control import body_inputs
from oneflow.dialect.record import Call
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.frontend.importers.onnx.writer_table import row


def _body_inputs(w: Any, c: Any) -> list[TensorDesc]:
    """The types of the arguments of the bodies of a call."""
    return body_inputs(Call(c.record, {"xs": tuple(map(w.desc, c.xs))}, c.attrs))


@row("scan")
def _scan(w: Any, c: Any) -> Any:
    count, first, made = c.states, c.states + c.sequences, len(c.body.outputs)
    sequences = list(c.xs[count:first]) or [w.constant(np.arange(c.length))]
    before = [n for n in range(count) if w.is_used(made + n)]
    with w.graph([*_body_inputs(w, c)[:first], *([] if c.sequences else [TensorDesc((), dtypes.int64)])]) as body:
        results = w.inlined(c.body, [*body.inputs[:first], *c.xs[first:]])
        body.set_results([*results, *(body.inputs[n] for n in before)])
    stacked = made - count + len(before)
    names = w.node(
        "Scan", *c.xs[:count], *sequences, outputs=made + len(before), body=body.proto,
        num_scan_inputs=len(sequences), scan_input_directions=[int(c.reverse)] * len(sequences),
        scan_output_directions=[int(c.reverse)] * stacked,
    )  # fmt: skip
    names = names if isinstance(names, tuple) else (names,)
    found = dict(zip(before, names[made:], strict=True))
    return (*names[:made], *(found.get(n, "") for n in range(count)))


@row("while_loop")
def _while_loop(w: Any, c: Any) -> Any:
    (holds,) = w.inlined(c.condition, c.xs)
    kinds = [TensorDesc((), dtypes.int64), TensorDesc((), dtypes.bool_), *_body_inputs(w, c)[: c.states]]
    with w.graph(kinds) as body:
        after = w.inlined(c.body, [*body.inputs[2:], *c.xs[c.states :]])
        (goes_on,) = w.inlined(c.condition, [*after, *c.xs[c.states :]])
        body.set_results([goes_on, *after])
    return w.node("Loop", None, holds, *c.xs[: c.states], outputs=c.states, body=body.proto)


@row("cond")
def _cond(w: Any, c: Any) -> Any:
    graphs = {}
    for name, branch in (("then_branch", c.true_branch), ("else_branch", c.false_branch)):
        with w.graph([]) as body:
            body.set_results(w.inlined(branch, c.xs))
        graphs[name] = body.proto
    return w.node("If", c.predicate, outputs=len(c.true_branch.outputs), **graphs)
