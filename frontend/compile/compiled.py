"""Functions compiled for the shapes and types of their arguments.

@flow.compile
def f(x, w): return flow.relu(x @ w)
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect._mlir import ir
from oneflow.dialect.locks import Lock
from oneflow.dialect.record import REGISTRY
from oneflow.frontend.compile.ahead_of_time_backward import make_pullback, recorded_call, recorder
from oneflow.frontend.compile.guarded_call import FastPath, GuardedFunction, no_fast_path
from oneflow.frontend.compile.specialization import Specialization
from oneflow.frontend.core.arrays import (
    Data,
    device_name,
    device_of,
    dtype_of,
    is_array,
    is_data,
    is_foreign,
    is_on_device,
    is_on_ranks,
    ranks_of,
    to_data,
)  # fmt: skip
from oneflow.frontend.core.compilation import compile_for, set_compile_option
from oneflow.frontend.core.devices import Device
from oneflow.frontend.core.devices import device as named_device
from oneflow.frontend.core.dispatch import Stateful
from oneflow.frontend.core.errors import CallError
from oneflow.frontend.core.pytree import Tree, flatten
from oneflow.frontend.core.settings import DEFAULT_DTYPE, SCOPE
from oneflow.frontend.core.spec import TensorSpec
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.frontend.tracing.callables import Callee, bind, entry_name, filled, value_key
from oneflow.frontend.tracing.capture import layout_of
from oneflow.frontend.tracing.trace import INLINE_BYTES, trace, trace_call
from oneflow.frontend.tracing.traced import Traced
from oneflow.lowering.options import AUTOTUNE
from oneflow.passes.pipeline import without_garbage_collection
from oneflow.passes.sbp import STRATEGIES
from oneflow.runtime.footprint import Footprint
from oneflow.runtime.global_array import Placement

STATIC_TYPES = (bool, int, float, complex, str, bytes, type(None), dtypes.DType, Stateful)
#: The most signatures of calls whose fast paths a function keeps.
_MAX_SIGNATURES = 1024


#: All compiled functions.
_functions: weakref.WeakSet[CompiledFunction] = weakref.WeakSet()


def _forget_programs(name: str) -> None:
    for function in list(_functions):
        function.forget()


REGISTRY.on_replacement.append(_forget_programs)


class CompiledFunction(GuardedFunction):
    """A Python function that runs as compiled code, with one program for each input signature.

    Arrays (NumPy, DLPack) are tensors: their shapes and element types are the signature, unless there are `specs`.
    Python numbers, strings and None are part of the signature by value. Results have the structure that the function
    returns: arrays of NumPy, arrays on a device, or tensors if the function is called with tensors or captures
    tensors. A call with tensors while another function is traced becomes part of that trace.

    Arrays that the function captures are copied during tracing; later changes of these arrays have no effect.
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
        self.__name__, self._method_key = callee.name, callee.method_key
        self.device, self.placement, self._strategy, self._autotune = device, placement, strategy, autotune
        self._requested_specs = specs
        self._spec = None if specs is None or callee.takes_self else _flatten_arguments(_bind_specs(fn, specs))
        self._specializations: dict[Any, list[Specialization]] = {}
        self._by_signature: dict[Any, tuple[Specialization, Device | None, tuple[Any, FastPath]]] = {}
        self._last: Specialization | None = None
        self._fast = None, no_fast_path
        self._lock, self._updating = Lock(), Lock(reentrant=True)
        _functions.add(self)

    def forget(self) -> None:
        """Drops all programs of the function, so that the next call traces the function again."""
        with self._lock.held():
            self._specializations, self._by_signature = {}, {}
            self._last, self._fast = None, (None, no_fast_path)

    def __get__(self, instance: Any, owner: type | None = None) -> CompiledFunction:
        """The function as a method of `instance`; every instance has separate programs."""
        made = getattr(instance, "__dict__", {}).get(self._method_key)
        if made is not None and made.target is instance and made.own is self:
            compiled: CompiledFunction = made.compiled
            return compiled
        bound: CompiledFunction = self._callee.bound(instance, owner, self, self._compile_method)
        return bound

    def _compile_method(self, fn: Callable[..., Any]) -> CompiledFunction:
        return CompiledFunction(fn, self._requested_specs, *self._options)

    @property
    def _options(self) -> tuple[Any, ...]:
        """The options other than specs."""
        return self.device, self.placement, self._strategy, self._autotune

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy has no programs yet."""
        return CompiledFunction, (self._fn, self._requested_specs, *self._options)

    def __repr__(self) -> str:
        programs = sum(map(len, self._specializations.values()))
        count = f"{programs} program{'' if programs == 1 else 's'}"
        return f"<compiled {self.__name__}{inspect.signature(self._fn)}, {count}>"

    def _call_within_trace(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        bind(self._fn, args, kwargs)
        return self._fn(*args, **kwargs)

    def _full_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        key = None if kwargs else _fast_signature(args)
        cached = None if key is None else self._by_signature.get(key)
        if cached is not None and self._fast is not cached[2]:
            value = cached[2][1](args)
            if value is not NotImplemented:
                self._last, self._fast = cached[0], cached[2]
                return value
        if cached is None or not cached[0].holds(cached[1]):
            return self._call(key, bind(self._fn, args, kwargs), len(args))
        self._last, self._fast = cached[0], cached[2]
        return self._run(cached[0], args, [x.storage if isinstance(x, EagerTensor) else x for x in args])

    def _call(self, key: Any, arguments: inspect.BoundArguments, count: int) -> Any:
        """Finds or makes the program for arguments, runs it, and keeps it under a key; `count` arguments were passed
        by position.
        """
        leaves, tree = _flatten_arguments(arguments)
        nested_key = None if key is not None else _fast_signature(leaves)
        if nested_key is not None:
            return self._call_nested((tree, nested_key), arguments, leaves, tree)
        specialization, values, device = self._find(arguments, leaves, tree)
        if key is not None:
            self._last, self._fast = specialization, self._fast_path_of(specialization, leaves, leaves[count:])
            self._keep(key, (specialization, device, self._fast))
        elif _are_foreign(leaves, tree):
            self._last, self._fast = specialization, self._fast_path_of(specialization, leaves)
        return self._run(specialization, leaves, values, tree)

    def _call_nested(self, key: Any, arguments: inspect.BoundArguments, leaves: list[Any], tree: Tree) -> Any:
        """Like `_call`, for arguments by name or in containers; the fast path is for the leaves of the containers."""
        cached = self._by_signature.get(key)
        self._fast = None, no_fast_path
        value = NotImplemented if cached is None else cached[2][1](leaves)
        if cached is not None and value is not NotImplemented:
            self._last = cached[0]
            return value
        if cached is None or not cached[0].holds(cached[1]):
            specialization, values, device = self._find(arguments, leaves, tree)
            self._keep(key, (specialization, device, self._fast_path_of(specialization, leaves, (), tree)))
            return self._run(specialization, leaves, values, tree)
        self._last = cached[0]
        return self._run(cached[0], leaves, [x.storage if isinstance(x, EagerTensor) else x for x in leaves], tree)

    def _keep(self, key: Any, entry: tuple[Specialization, Device | None, tuple[Any, FastPath]]) -> None:
        """Keeps the fast path of calls with the signature `key`; a program of dynamic sizes has many signatures."""
        with self._lock.held():
            if len(self._by_signature) >= _MAX_SIGNATURES:
                del self._by_signature[next(iter(self._by_signature))]
            self._by_signature[key] = entry

    def _find(
        self, arguments: inspect.BoundArguments, leaves: list[Any], tree: Tree
    ) -> tuple[Specialization, list[Any], Device | None]:
        """The program for arguments, the values of their leaves, and the device of the leaves."""
        paths = list(tree.keystrs())
        values = [_argument_value(x, path) for x, path in zip(leaves, paths, strict=True)]
        specs = self._signature(values, paths, tree)
        device = self._choose_device(leaves, values, paths)
        specialization = self._specialize(arguments, specs, tree, device)
        return specialization, values, None if device is None else specialization.device

    def _fast_path_of(
        self,
        specialization: Specialization,
        leaves: Sequence[Any],
        defaults: Sequence[Any] = (),
        tree: Tree | None = None,
    ) -> tuple[Any, FastPath]:
        """The current settings, and the fast path for arguments like `leaves`, whose structure is `tree`.

        The `leaves` end with the `defaults`, which calls do not pass.
        """
        owner = weakref.ref(self)  # a cycle would leave the programs to the garbage collector
        record = recorder(self.__name__, specialization, leaves, owner, tree)
        return _settings(), specialization.fast_path(leaves, defaults, self.__name__, record)

    def _run(
        self, specialization: Specialization, leaves: Sequence[Any], values: Sequence[Any], tree: Tree | None = None
    ) -> Any:
        """The result of the function for `values`, the arrays and static values of the arguments `leaves`, whose
        structure is `tree`.
        """
        eager = specialization.uses_tensors or any(isinstance(x, EagerTensor) for x in leaves)
        with specialization.exclusive:
            recorded = recorded_call(self.__name__, specialization.traced, leaves) if eager else None
            pairs = [(x, v) for x, v in zip(leaves, values, strict=True) if is_data(v)]
            array_arguments = [x for x, _ in pairs]
            results = specialization.run(array_arguments, [v for _, v in pairs], self.__name__)
        results = specialization.values_of(results, eager)
        if recorded is not None:
            recorded.record_results(results, functools.partial(self.pullback, specialization, leaves, tree))
        return specialization.build(results, array_arguments)

    def pullback(
        self, specialization: Specialization, leaves: Sequence[Any], tree: Tree | None
    ) -> Callable[..., Any]:
        """The compiled gradient of a program whose arguments `leaves` have the structure `tree`."""
        tree = tree or _flatten_arguments(bind(self._fn, leaves, {}))[1]
        if tree not in specialization.pullbacks:
            pullback = make_pullback(self._fn, tree, specialization.traced.activity)
            specialization.pullbacks[tree] = CompiledFunction(pullback, None, *self._options)
        return specialization.pullbacks[tree]

    def _choose_device(self, leaves: list[Any], values: list[Any], paths: list[str]) -> Device | None:
        """The requested device, or the device of the arguments; None if all arguments are on the host.

        Raises:
            CallError: an argument is on another device; the argument is named.
        """
        on_device = [(path, v) for path, v in zip(paths, values, strict=True) if is_on_device(v)]
        if not on_device:
            return self.device
        device = str(self.device or device_name(on_device[0][1]))
        tensors = [(path, v) for path, v, x in zip(paths, values, leaves, strict=True) if isinstance(x, EagerTensor)]
        for path, value in (*on_device, *tensors):
            if device_name(value) != device and (value.ndim or is_on_device(value)):
                raise CallError(
                    f"{self.__name__} runs on {device}, argument {path} is on {device_name(value)}: pass "
                    f'{path}.to("{device}"), or compile for another device'
                )
        return named_device(device)

    def trace(self, *specs: Any) -> ir.Module:
        """The module of the function for `specs`, as from `flow.trace`."""
        return trace(self._fn, *specs)

    def on_arrays(self) -> Callable[[Sequence[Data]], list[Data]]:
        """The program of the given specs, or of the latest call, as a function from the arrays of arguments to the
        arrays of results, both in order; the arrays are not compared with the specs.
        """
        return self._latest().on_arrays(self.__name__)

    @property
    def module(self) -> ir.Module:
        """The module of the given specs, or of the latest call."""
        return self._latest().traced.module

    @property
    def memory(self) -> Footprint:
        """The memory of a run in bytes for arguments, results and the workspace; of the latest call, or of the given
        specs.
        """
        return self._latest().executable.memory

    def ir(self, stage: str = "oneflow") -> str:
        """The program at a stage of `lowering.pipelines.STAGES`; of the latest call, or of the given specs."""
        specialization = self._latest()
        return str(specialization.traced.module) if stage == "oneflow" else specialization.executable.ir(stage)

    @property
    def traced(self) -> Traced:
        """The program of the latest call, or of the given specs, with the captured values of the program."""
        return self._latest().traced

    def _latest(self) -> Specialization:
        if self._last is None and self._spec is not None:
            leaves, tree = self._spec
            arguments = filled(inspect.signature(self._fn).bind_partial(), tree.unflatten(leaves))
            return self._specialize(arguments, leaves, tree, self.device)
        if self._last is None:
            raise CallError(f"{self.__name__} has no program: call the function, or pass specs to flow.compile")
        return self._last

    def _signature(self, values: list[Any], paths: list[str], tree: Tree) -> list[Any]:
        """The specs of a call: the specs given to `flow.compile`, or the types of the arrays of the call."""
        if self._spec is None:
            return [_spec_of(v) if is_data(v) else v for v in values]
        specs, given_tree = self._spec
        if tree != given_tree:
            raise CallError(f"{self.__name__}: expected arguments nested as in specs, {_describe(specs, given_tree)}")
        return [checked_spec(s, v, path) for s, v, path in zip(specs, values, paths, strict=True)]

    def _specialize(
        self, arguments: inspect.BoundArguments, specs: list[Any], tree: Tree, device: Device | None
    ) -> Specialization:
        key = (tree, tuple(_leaf_key(s) for s in specs), _settings())
        with self._lock.held():
            candidates = self._specializations.setdefault(key, [])
            specialization = next((s for s in candidates if s.holds(device)), None)
            if specialization is None:
                candidates[:] = [s for s in candidates if s.may_match_again]
                specialization = self._trace_and_compile(filled(arguments, tree.unflatten(specs)), device)
                candidates.append(specialization)
            self._last = specialization
        return specialization

    @without_garbage_collection()
    def _trace_and_compile(self, arguments: inspect.BoundArguments, device: Device | None) -> Specialization:
        traced = trace_call(self._fn, arguments, entry_name(self._fn), INLINE_BYTES, self.placement, device)
        return self._compile(traced, traced.device)

    def _compile(self, traced: Traced, device: Device) -> Specialization:
        if self._autotune is not None:
            set_compile_option(traced.module, AUTOTUNE, self._autotune)
        executable = compile_for(traced.placements or device, traced.module, traced.entry, self._strategy)
        return Specialization(traced, executable, device, [layout_of(c) for c in traced.captured], self._updating)


def _bind_specs(fn: Callable[..., Any], specs: Sequence[Any] | Mapping[str, Any]) -> inspect.BoundArguments:
    if isinstance(specs, TensorSpec):
        specs = (specs,)
    if not isinstance(specs, (Mapping, Sequence)) or isinstance(specs, str):
        raise CallError(
            f"expected specs as a list, one for each parameter, or a dict by parameter names, got {specs!r}"
        )
    return bind(fn, (), dict(specs)) if isinstance(specs, Mapping) else bind(fn, specs, {})


def _flatten_arguments(arguments: inspect.BoundArguments) -> tuple[list[Any], Tree]:
    return flatten(dict(arguments.arguments))


def _settings() -> tuple[Any, Any]:
    """The settings that functions of tensors read, on which programs depend."""
    return DEFAULT_DTYPE[0], SCOPE.get()


def _are_foreign(leaves: Sequence[Any], tree: Tree) -> bool:
    """Whether all arguments are arrays, without containers, and at least one is of another library than NumPy."""
    is_flat = all(child.kind is None for child in tree.children)
    return is_flat and any(is_foreign(x) for x in leaves if not isinstance(x, EagerTensor))


def _fast_signature(args: Sequence[Any]) -> tuple[Any, ...] | None:
    """A key for calls that pass arrays, numbers and strings alone, made without flattening; None for other calls."""
    signature: list[tuple[Any, ...]] = [_settings()]
    for x in args:
        data, has_gradient = x, False
        if isinstance(x, EagerTensor):
            variable = x.handle if x.view_meta is None else x.variable
            data, has_gradient = variable.handle, variable.node is not None or variable.leaf is not None
        if type(data) is np.ndarray:
            signature.append((type(x), data.shape, data.dtype, has_gradient))
        elif is_on_device(data):
            signature.append((type(x), data.shape, data.dtype.name, device_of(data), has_gradient))
        elif is_on_ranks(data):
            signature.append((type(x), data.shape, data.dtype.name, ranks_of(data), has_gradient))
        elif isinstance(data, (bool, int, str)) or data is None:
            signature.append((type(data), data))
        elif type(data) is float:
            signature.append((float, data.hex()))  # distinguishes -0 from 0, and equals for NaN
        else:
            return None
    return tuple(signature)


def _argument_value(value: Any, path: str) -> Any:
    """An argument as an array on the host or on a device, or as a static value."""
    if isinstance(value, STATIC_TYPES) and not isinstance(value, np.generic):
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


def checked_spec(spec: Any, value: Any, path: str) -> Any:
    """The spec that a value has to fit; the value if the spec is a static value."""
    if not isinstance(spec, TensorSpec):
        if is_data(value):
            raise CallError(f"expected {path} to be no array, as in the specs ({spec!r}), got {_spec_of(value)}")
        return value
    if not is_data(value):
        raise CallError(f"expected {path} of type {spec}, got {value!r}")
    if not _spec_of(value).desc.refines(spec.desc):
        raise CallError(f"expected {path} of type {spec}, got {_spec_of(value)}")
    return spec


def _leaf_key(leaf: Any) -> Any:
    """The part of the key for a spec or a static value."""
    return leaf if isinstance(leaf, TensorSpec) else value_key(leaf)


def _describe(leaves: Sequence[Any], tree: Tree) -> str:
    return ", ".join(f"{path}: {leaf}" for path, leaf in zip(tree.keystrs(), leaves, strict=True))


def _expect_layouts(placement: object, strategy: object) -> None:
    """Checks the placement and the strategy."""
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
        fn: a function of oneflow's functions and operators: also a method, a `functools.partial`, an object
            with `__call__`. Values from outside the arguments are read during tracing; a change of numbers, strings
            or flags of the object of a method traces the method again.
        positional: `specs` one by one: `flow.compile(fn, flow.TensorSpec((None, 64)))`.
        specs: the types of arguments: `TensorSpec`s, or lists, tuples and dicts of them, one per parameter in order
            or by name. Without specs the function is compiled for the shapes and element types of each new call.
        device: the device, "cpu", "cuda" or "cuda:1"; the default is the device of the tensors that the function is
            called with or uses, else the host. Arrays of NumPy are copied to a device; if all arguments are arrays of
            NumPy, results are copied back.
        placement: the ranks of the function's tensors: ranks of the MPI job of this process, or threads of
            this process. The default is the placement of the global tensors that the function is called with or uses.
            Other tensors must be the same on every rank.
        strategy: the choice of layouts without annotation: "greedy", operator by operator as in OneFlow, or
            "auto", the cheapest for the whole function.
        autotune: whether kernels for a GPU are chosen among candidates by times of the first run; the default is
            the setting of `flow.cuda.set_autotune`.
    """
    device = None if device is None else named_device(device)
    _expect_layouts(placement, strategy)
    if isinstance(fn, TensorSpec):
        fn, positional = None, (fn, *positional)
    if positional and specs is not None:
        raise CallError(f"expected specs by position or as specs=.., got both: {positional} and {specs!r}")
    requested = positional or specs
    if fn is None:
        return lambda function: CompiledFunction(function, requested, device, placement, strategy, autotune)
    return CompiledFunction(fn, requested, device, placement, strategy, autotune)
