"""Tracing: a function becomes a module by one call with tensors that have shapes and no values.

    flow.trace(fn, flow.TensorSpec((None, 64), flow.float32))

Arrays that the function captures are copied at their first use. `trace` writes them into the program;
`compile` makes those above `INLINE_BYTES` inputs, so that weights are not part of the program's text.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import func, ir
from oneflow.frontend.core.arrays import is_array
from oneflow.frontend.core.devices import Device
from oneflow.frontend.core.dispatch import Stateful, as_tensor, use_builder
from oneflow.frontend.core.errors import SourceLocation, TraceError, user_location
from oneflow.frontend.core.layouts import ProgramPlacements, annotate
from oneflow.frontend.core.pytree import Tree, flatten
from oneflow.frontend.core.spec import TensorSpec
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.tracing.activity import Activity
from oneflow.frontend.tracing.builder import TraceBuilder, location
from oneflow.frontend.tracing.callables import (
    Callee,
    bind,
    entry_name,
    filled,
    owner_of,
    settings_of,
)
from oneflow.frontend.tracing.capture import Effects
from oneflow.frontend.tracing.entry import complete_entry, donate
from oneflow.frontend.tracing.guards import Guards
from oneflow.frontend.tracing.traced import ReturnedArgument, Traced
from oneflow.runtime.global_array import Placement

#: Captured arrays of more bytes than this become inputs of a compiled function.
INLINE_BYTES = 1024


def trace(fn: Callable[..., Any], *specs: Any, name: str | None = None) -> ir.Module:
    """The module of a Python function, with one `func.func` named after it.

    Args:
        fn: a function of tensors, built of oneflow's functions and operators.
        specs: one per argument: a `TensorSpec`, or lists, tuples and dicts of them; any other value is passed as
            it is, like defaults.
        name: the name of the `func.func` in place of the function's own.

    Raises:
        CallError: the specs do not fit the function's parameters.
        TraceError: at the user's line: the part of the function that cannot become a program, and a remedy.
    """
    fn = Callee.of(fn).function
    arguments = bind(fn, specs, {})
    return trace_call(fn, arguments, name or entry_name(fn), float("inf")).module


def trace_call(
    fn: Callable[..., Any],
    arguments: inspect.BoundArguments,
    name: str,
    inline_bytes: float,
    placement: Placement | None = None,
    chosen_device: Device | None = None,
) -> Traced:
    """Traces a call whose tensors are given as `TensorSpec`s.

    Captured arrays of more than `inline_bytes` become inputs of the program. `placement` are the ranks of tensors
    that say nothing else. Without a `chosen_device`, the captured tensors decide where the function runs.

    Raises:
        TraceError: at the user's line: the part of the function that cannot become a program.
    """
    leaves, tree = flatten(dict(arguments.arguments))
    specs = [leaf for leaf in leaves if isinstance(leaf, TensorSpec)]
    paths = [path for leaf, path in zip(leaves, tree.paths(), strict=True) if isinstance(leaf, TensorSpec)]
    keystrs = [path for leaf, path in zip(leaves, tree.keystrs(), strict=True) if isinstance(leaf, TensorSpec)]
    before, definition = settings_of(fn), _definition(fn)
    with dialect.create_context(operators=()), location(definition):
        module = ir.Module.create()
        entry = func.FuncOp(name, ([s.desc.to_mlir() for s in specs], []), ip=ir.InsertionPoint(module.body))
        builder = TraceBuilder(entry.add_entry_block(), inline_bytes, placement, chosen_device)
        traced_leaves = _argument_tensors(builder, leaves)
        arguments = filled(arguments, tree.unflatten(traced_leaves))
        returned, outputs, effects = _returned_values(builder, fn, arguments, specs)
        results = [(p, v) for p, v in zip(outputs.paths(), returned, strict=True) if isinstance(v, Tensor)]
        results += list(zip(effects.names(), effects.results, strict=True))
        _expect_results(name, definition, results, returned)
        names = [s.name or path for s, path in zip(specs, paths, strict=True)]
        complete_entry(entry, builder.captures, names, results)
        donate(entry, len(specs), len(results) - len(effects.results), effects)
        placements = _annotate_layouts(entry, builder, specs, results, effects)
        module.operation.verify()
    statics = tuple(
        None if isinstance(v, Tensor) else v if isinstance(v, ReturnedArgument) else (v,) for v in returned
    )
    captures, tensors = builder.captures, [v for v in returned if isinstance(v, Tensor)]
    guards = captures.all_guards()
    _guard_settings(guards, fn, before)
    activity = Activity.of(captures, effects.changed, builder.leaf_tape, tensors)
    return Traced(
        module, name, tuple(keystrs), tuple(captures.inputs), outputs, statics, effects, activity, guards, placements,
        builder.checked_device(),
    )  # fmt: skip


def _argument_tensors(builder: TraceBuilder, leaves: Sequence[Any]) -> list[Any]:
    """The leaves of the arguments with a tensor of the trace in place of each spec."""
    inputs = iter(list(builder.block.arguments))
    traced = [Tensor(builder, next(inputs), s.desc) if isinstance(s, TensorSpec) else s for s in leaves]
    builder.arguments = [x for x in traced if isinstance(x, Tensor)]
    builder.argument_specs = [s for s in leaves if isinstance(s, TensorSpec)]
    return traced


def _returned_values(
    builder: TraceBuilder, fn: Callable[..., Any], arguments: inspect.BoundArguments, specs: Sequence[TensorSpec]
) -> tuple[list[Any], Tree, Effects]:
    """Calls a function with tensors of the trace: the leaves of its value, the structure of the value, and the
    effects of the call.
    """
    if isinstance(owner := owner_of(fn), Stateful):
        builder.watch(owner)
    with use_builder(builder), builder.ending:
        for spec in specs:
            builder.add_placement(spec.placement)
        returned, outputs = flatten(fn(*arguments.args, **arguments.kwargs))
        updated = builder.updated_arguments()
        values = [_returned_value(builder, v, updated) for v in returned]
        return values, outputs, builder.captures.effects(builder, updated)


def _expect_results(
    name: str, definition: SourceLocation, results: Sequence[tuple[str, Tensor]], returned: Sequence[Any]
) -> None:
    """Checks that the function returns or updates a tensor."""
    if not results:
        got = ", ".join(repr(v) for v in returned if v is not None)
        static = f"; it returned {got}: strings and numbers that it is called with are no tensors" if got else ""
        raise TraceError(f"{name} returned no tensor{static or '; return a computed tensor'}", definition)


def _annotate_layouts(
    entry: func.FuncOp,
    builder: TraceBuilder,
    specs: Sequence[TensorSpec],
    results: Sequence[tuple[str, Tensor]],
    effects: Effects,
) -> ProgramPlacements | None:
    """Annotates a program with placements, which are returned; None where no tensor is global."""
    placements = builder.placements.program_placements()
    if placements is not None:
        layouts = [s.layout_on(placements.home) for s in specs]
        of_values = builder.captures.value_layouts(placements, layouts, results, effects)
        annotate(entry.operation, placements, *of_values)
    return placements


def _returned_value(builder: TraceBuilder, value: Any, updated: Sequence[tuple[int, Tensor]]) -> Any:
    """A returned value as a tensor of the trace, if it is a tensor or an array; an updated argument stays the
    caller's tensor.
    """
    index = next((n for n, _ in updated if builder.arguments[n] is value), None)
    if index is not None:
        return ReturnedArgument(index)
    if isinstance(value, Tensor):
        return builder.to_tensor(builder.read(value))
    return as_tensor(value) if is_array(value) else value


def _guard_settings(guards: Guards, fn: Callable[..., Any], before: dict[str, Any]) -> None:
    """Adds guards on the settings of the object that a method belongs to, except settings that the function itself
    changes, such as counters.
    """
    owner = owner_of(fn)
    for name, key in settings_of(fn).items():
        if before.get(name) == key:
            guards.add_value(getattr, owner, name)


def _definition(fn: Callable[..., Any]) -> SourceLocation:
    code = getattr(inspect.unwrap(fn), "__code__", None)
    return SourceLocation(code.co_filename, code.co_firstlineno, 1) if code else user_location()
