"""Functions compiled for the shapes and types they are called with.

@flow.compile
def f(x, w): return flow.relu(x @ w)
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect._mlir import ir
from oneflow.dialect.locks import Lock
from oneflow.frontend.compile.ahead_of_time_backward import puller, recorded_call
from oneflow.frontend.compile.specialization import Quick, Specialization, place_of_tensors, unknown
from oneflow.frontend.core.arrays import (
    Data,
    device_of,
    dtype_of,
    is_array,
    is_data,
    is_on_device,
    place_of,
    ranks_of,
    to_data,
)  # fmt: skip
from oneflow.frontend.core.devices import Device, choose
from oneflow.frontend.core.devices import device as named_device
from oneflow.frontend.core.dispatch import Stateful
from oneflow.frontend.core.errors import CallError
from oneflow.frontend.core.mode import tracing
from oneflow.frontend.core.placements import compile_function
from oneflow.frontend.core.spec import TensorSpec
from oneflow.frontend.core.tree import Tree, flatten
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.frontend.tracing.callables import Callee, bind, entry_name, filled, told_apart
from oneflow.frontend.tracing.capture import layout_of
from oneflow.frontend.tracing.trace import INLINE_BYTES, trace, trace_call
from oneflow.frontend.tracing.traced import Traced
from oneflow.lowering.triton.names import AUTOTUNE
from oneflow.passes.infer_sbp import STRATEGIES
from oneflow.passes.pipeline import without_garbage_collection
from oneflow.runtime.footprint import Footprint
from oneflow.runtime.global_array import Placement

STATIC = (bool, int, float, complex, str, bytes, type(None), dtypes.DType, Stateful)


class CompiledFunction:
    """A Python function that runs as compiled code, once per input signature.

    Arrays (NumPy, DLPack) are tensors: their shapes and element types are the signature, unless `specs` were given.
    Python numbers, strings and None are part of the signature by value. Results are arrays in the structure that the
    function returns: NumPy's, on a device `DeviceArray`s, and tensors where it is called with or uses those. Called
    with tensors while another function is traced, it becomes part of that.

    Arrays that the function takes from outside its arguments are copied when it is traced; later changes to them
    are not seen.
    """

    __name__: str

    def __init__(
        self,
        fn: Callable[..., Any],
        specs: Sequence[Any] | Mapping[str, Any] | None,
        device: Device | None,
        placement: Placement | None = None,
        strategy: str = "greedy",
        autotune: bool | None = None,
    ) -> None:
        self._callee = callee = Callee.of(fn)
        self._fn = fn = callee.function
        functools.update_wrapper(self, fn, updated=())
        self.__name__ = callee.name
        self.device, self.placement, self._strategy, self._autotune = device, placement, strategy, autotune
        self._given = specs
        self._spec = None if specs is None or callee.awaits_self else _flat(_bind_specs(fn, specs))
        self._known: dict[Any, list[Specialization]] = {}
        self._seen: dict[Any, tuple[Specialization, Device | None, Quick]] = {}
        self._last: Specialization | None = None
        self._quick: Quick = unknown
        self._lock, self._updating = Lock(), Lock(reentrant=True)

    def __get__(self, instance: Any, owner: type | None = None) -> CompiledFunction:
        """The function as a method of `instance`, of which it has programs of its own."""
        bound: CompiledFunction = self._callee.bound(instance, owner, self, self._of)
        return bound

    def _of(self, fn: Callable[..., Any]) -> CompiledFunction:
        return CompiledFunction(fn, self._given, *self._how)

    @property
    def _how(self) -> tuple[Any, ...]:
        """What was asked for besides specs."""
        return self.device, self.placement, self._strategy, self._autotune

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy has no programs yet."""
        return CompiledFunction, (self._fn, self._given, *self._how)

    def __repr__(self) -> str:
        programs = sum(map(len, self._known.values()))
        held = f"{programs} program{'' if programs == 1 else 's'}"
        return f"<compiled {self.__name__}{inspect.signature(self._fn)}, {held}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the function on arrays.

        Raises:
            CallError: an argument is not what the function takes; it is named.
            TraceError: the function cannot become a program.
        """
        if tracing():
            bind(self._fn, args, kwargs)
            return self._fn(*args, **kwargs)
        value = NotImplemented if kwargs else self._quick(args)
        if value is not NotImplemented:
            return value
        key = None if kwargs or self._spec is not None else _tokens(args)
        found = None if key is None else self._seen.get(key)
        if found is None or not found[0].holds(found[1]):
            return self._call(key, bind(self._fn, args, kwargs))
        if found[0] is not self._last or self._quick is not found[2]:
            self._last, self._quick = found[0], found[2]
        return self._finish(found[0], args, [x.storage if isinstance(x, EagerTensor) else x for x in args])

    def _call(self, key: Any, arguments: inspect.BoundArguments) -> Any:
        """Finds or makes the program for arguments, runs it, and keeps it under a key."""
        leaves, tree = _flat(arguments)
        paths = list(tree.spelled())
        values = [_leaf(x, path) for x, path in zip(leaves, paths, strict=True)]
        specs = self._signature(values, paths, tree)
        place = self._place(leaves, values, paths)
        special = self._specialize(arguments, specs, tree, place)
        if key is not None:
            self._keep(special, leaves)
            self._seen[key] = special, None if place is None else special.device, self._quick
        return self._finish(special, leaves, values, tree)

    def _keep(self, special: Specialization, args: Sequence[Any]) -> None:
        """Notes the program of the latest call, and the quick way into it for others like that."""
        self._last = special
        self._quick = special.quick(args, self.__name__)

    def _finish(
        self, special: Specialization, leaves: Sequence[Any], values: Sequence[Any], tree: Tree | None = None
    ) -> Any:
        """What the function returns for `values`, which `leaves` are in; they are arguments of a structure."""
        eager = special.uses_tensors or any(isinstance(x, EagerTensor) for x in leaves)
        with special.running:
            recorded = recorded_call(self.__name__, special.traced, leaves) if eager else None
            pairs = [(x, v) for x, v in zip(leaves, values, strict=True) if is_data(v)]
            given = [x for x, _ in pairs]
            results = special.run(given, [v for _, v in pairs], self.__name__)
        value = special.rebuild(results, eager, given)
        if recorded is not None:
            recorded.give(value, lambda: self._pull(special, leaves, tree))
        return value

    def _pull(self, special: Specialization, leaves: Sequence[Any], tree: Tree | None) -> Callable[..., Any]:
        """The function of the gradients of a program, whose arguments `leaves` have a structure."""
        tree = tree or _flat(bind(self._fn, leaves, {}))[1]
        if tree not in special.pulls:
            made = puller(self._fn, tree, special.traced.reach)
            special.pulls[tree] = CompiledFunction(made, None, *self._how)
        return special.pulls[tree]

    def _place(self, leaves: list[Any], values: list[Any], paths: list[str]) -> Device | None:
        """The device that was chosen, or that arguments are on; None where all are on the host.

        Raises:
            CallError: an argument is elsewhere; it is named.
        """
        given = [(path, v) for path, v in zip(paths, values, strict=True) if is_on_device(v)]
        if not given:
            return self.device
        place = str(self.device or place_of(given[0][1]))
        tensors = [(path, v) for path, v, x in zip(paths, values, leaves, strict=True) if isinstance(x, EagerTensor)]
        for path, value in (*given, *tensors):
            if place_of(value) != place and (value.ndim or is_on_device(value)):
                raise CallError(
                    f"{self.__name__} runs on {place}, argument {path} is on {place_of(value)}: pass "
                    f'{path}.to("{place}"), or compile for another device'
                )
        return named_device(place)

    def trace(self, *specs: Any) -> ir.Module:
        """The module of the function for `specs`, as `flow.trace` gives it."""
        return trace(self._fn, *specs)

    @property
    def module(self) -> ir.Module:
        """The module of the given specs, or of the latest call."""
        return self._current().traced.module

    @property
    def memory(self) -> Footprint:
        """The bytes that a run takes, for arguments, results and the workspace; of the latest call, or the specs."""
        return self._current().executable.memory

    def ir(self, stage: str = "oneflow") -> str:
        """The program at a stage of `lowering.pipelines.STAGES`; of the latest call, or the specs."""
        special = self._current()
        return str(special.traced.module) if stage == "oneflow" else special.executable.ir(stage)

    def _current(self) -> Specialization:
        if self._last is None and self._spec is not None:
            leaves, tree = self._spec
            arguments = filled(inspect.signature(self._fn).bind_partial(), tree.unflatten(leaves))
            return self._specialize(arguments, leaves, tree, self.device)
        if self._last is None:
            raise CallError(f"{self.__name__} has not been called yet: call it, or give specs to flow.compile")
        return self._last

    def _signature(self, values: list[Any], paths: list[str], tree: Tree) -> list[Any]:
        """The specs of a call: the given ones where they were given, those of its arrays otherwise."""
        if self._spec is None:
            return [_spec_of(v) if is_data(v) else v for v in values]
        given, given_tree = self._spec
        if tree != given_tree:
            raise CallError(f"{self.__name__}: expected arguments nested as in specs, {_outline(given, given_tree)}")
        return [_checked(s, v, path) for s, v, path in zip(given, values, paths, strict=True)]

    def _specialize(
        self, arguments: inspect.BoundArguments, specs: list[Any], tree: Tree, place: Device | None
    ) -> Specialization:
        key = (tree, tuple(_key(s) for s in specs))
        with self._lock.held():
            known = self._known.setdefault(key, [])
            found = next((s for s in known if s.holds(place)), None)
            if found is None:
                known[:] = [s for s in known if s.lasts]
                found = self._new(filled(arguments, tree.unflatten(specs)), place)
                known.append(found)
            self._last = found
        return found

    @without_garbage_collection()
    def _new(self, given: inspect.BoundArguments, place: Device | None) -> Specialization:
        traced = trace_call(self._fn, given, entry_name(self._fn), INLINE_BYTES, self.placement)
        return self._compile(traced, place or named_device(place_of_tensors(traced.captured) or "cpu"))

    def _compile(self, traced: Traced, where: Device) -> Specialization:
        if self._autotune is not None:
            choose(traced.module, AUTOTUNE, self._autotune)
        made = compile_function(traced, where, self._strategy)
        return Specialization(traced, made, where, [layout_of(c) for c in traced.captured], self._updating)


def _bind_specs(fn: Callable[..., Any], specs: Sequence[Any] | Mapping[str, Any]) -> inspect.BoundArguments:
    if isinstance(specs, TensorSpec):
        specs = (specs,)
    if not isinstance(specs, (Mapping, Sequence)) or isinstance(specs, str):
        raise CallError(f"expected specs as a list, one for each parameter, or a dict by their names, got {specs!r}")
    return bind(fn, (), dict(specs)) if isinstance(specs, Mapping) else bind(fn, specs, {})


def _flat(arguments: inspect.BoundArguments) -> tuple[list[Any], Tree]:
    return flatten(dict(arguments.arguments))


def _tokens(args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """What tells calls apart that are made of arrays and numbers alone, at once; None for any others."""
    tokens: list[tuple[Any, ...]] = []
    for x in args:
        data = x.variable.handle if isinstance(x, EagerTensor) else x
        if is_on_device(data):
            tokens.append((type(x), data.shape, data.dtype.name, device_of(data)))
        elif type(data) is np.ndarray:
            tokens.append((type(x), data.shape, data.dtype))
        elif isinstance(data, (bool, int, str)) or data is None:
            tokens.append((type(data), data))
        else:
            return None
    return tuple(tokens)


def _leaf(value: Any, path: str) -> Any:
    """An argument as an array on the host or on a device, or as the static value it is."""
    if isinstance(value, STATIC) and not isinstance(value, np.generic):
        return value
    if isinstance(value, EagerTensor):
        return value.storage
    if not is_array(value):
        nested = "or a list, tuple, dict or dataclass of these"
        raise CallError(
            f"expected {path} to be an array, number, string or None, {nested}, got {type(value).__name__}"
        )
    try:
        return to_data(value)
    except TypeError as error:
        raise CallError(f"argument {path}: {error}") from None


def _spec_of(array: Data) -> TensorSpec:
    placement, nd = ranks_of(array)
    return TensorSpec(array.shape, dtype_of(array), placement=placement, sbp=nd)


def _checked(spec: Any, value: Any, path: str) -> Any:
    """The spec that a value has to fit, or the value where the spec is no tensor's."""
    if not isinstance(spec, TensorSpec):
        if is_data(value):
            raise CallError(f"expected {path} to be no array, as in the specs ({spec!r}), got {_spec_of(value)}")
        return value
    if not is_data(value):
        raise CallError(f"expected {path} of type {spec}, got {value!r}")
    if not _spec_of(value).desc.refines(spec.desc):
        raise CallError(f"expected {path} of type {spec}, got {_spec_of(value)}")
    return spec


def _key(leaf: Any) -> Any:
    """What tells one argument from another."""
    return leaf if isinstance(leaf, TensorSpec) else told_apart(leaf)


def _outline(leaves: Sequence[Any], tree: Tree) -> str:
    return ", ".join(f"{path}: {leaf}" for path, leaf in zip(tree.spelled(), leaves, strict=True))


def _expect_layouts(placement: object, strategy: object) -> None:
    """Checks what is said of the ranks."""
    if not isinstance(placement, Placement | None):
        raise CallError(f'expected placement=flow.placement("cpu", ranks=[0, 1]) or the like, got {placement!r}')
    if strategy not in STRATEGIES:
        raise CallError(f"expected the strategy {' or '.join(map(repr, STRATEGIES))}, got {strategy!r}")


@overload
def compile(
    fn: Callable[..., Any],
    *positional: Any,
    specs: Any = None,
    device: Any = None,
    placement: Placement | None = None,
    strategy: str = "greedy",
    autotune: bool | None = None,
) -> CompiledFunction:
    """The compiled function."""


@overload
def compile(
    fn: TensorSpec | None = None,
    *positional: Any,
    specs: Any = None,
    device: Any = None,
    placement: Placement | None = None,
    strategy: str = "greedy",
    autotune: bool | None = None,
) -> Callable[..., CompiledFunction]:
    """A decorator."""


def compile(
    fn: Callable[..., Any] | TensorSpec | None = None,
    *positional: Any,
    specs: Any = None,
    device: Any = None,
    placement: Placement | None = None,
    strategy: str = "greedy",
    autotune: bool | None = None,
) -> Any:
    """Compiles a Python function of tensors; also a decorator, with or without arguments.

    Args:
        fn: a function built of oneflow's functions and operators: also a method, a `functools.partial`, an object
            that is called. What it takes from outside its arguments is read when it is traced; when numbers, strings
            and flags of the object that it is a method of change, it is traced again.
        positional: `specs` one by one: `flow.compile(fn, flow.TensorSpec((None, 64)))`.
        specs: what its arguments are: `TensorSpec`s, or lists, tuples and dicts of them, one per parameter in order
            or by name. Without them it is compiled for the shapes and element types of each new call.
        device: where it runs, "cpu", "cuda" or "cuda:1"; without it where the tensors are that it is called with or
            uses, or on the host. Arrays of NumPy are copied to a device, and results back where all were.
        placement: the ranks that its tensors lie on: those of the MPI job that this process belongs to, or threads of
            this process. Without it those of the global tensors that it is called with or uses. Other tensors have to
            be the same on every rank.
        strategy: how layouts are chosen where they are left open: "greedy", operator by operator as in OneFlow, or
            "auto", the cheapest for the whole function.
        autotune: whether its kernels on a GPU are the fastest of several that are timed in the first run; without it
            as `flow.cuda.set_autotune` says.
    """
    place = None if device is None else named_device(device)
    _expect_layouts(placement, strategy)
    decorates = fn is None or isinstance(fn, TensorSpec)
    given = (fn, *positional) if isinstance(fn, TensorSpec) else positional
    if given and specs is not None:
        raise CallError(f"expected specs by position or as specs=.., got both: {given} and {specs!r}")
    wanted = given or specs
    if decorates:
        return lambda function: CompiledFunction(function, wanted, place, placement, strategy, autotune)
    return CompiledFunction(fn, wanted, place, placement, strategy, autotune)  # type: ignore[arg-type]
