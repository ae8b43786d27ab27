"""The modules that OneFlow's tests import in addition to the package: the harness of a checkout, and dependencies.

`oneflow.test_utils`, `oneflow.support` and `oneflow.framework` are the checkout's own code. `oneflow.unittest`,
`oneflow.framework.tensor` and `oneflow._oneflow_internal` of the checkout need OneFlow's library; this file has
replacements with the names that tests use.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import random
import sys
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace, UnionType
from typing import Any, Tuple, Union, get_args, get_origin  # noqa: UP035
from unittest import mock

from messages import Message

import oneflow
from oneflow.frontend.core.devices import Device
from oneflow.runtime.global_array import Placement

#: The public modules of the names of OneFlow's internal modules.
_PUBLIC = {
    "nn.parallel": oneflow.nn.parallel,
    "nn.parallel.distributed": oneflow.nn.parallel,
    "nn.optimizer": oneflow.optim,
    "nn.optimizer.lr_scheduler": oneflow.optim.lr_scheduler,
    "nn.optimizer.multiplicative_lr": oneflow.optim.lr_scheduler,
    "nn.optimizer.swa_utils": oneflow.optim.swa_utils,
}


def install(
    checkout: Path,
    repeats: int,
    graphs: bool,
    ranks: int = 1,
    has_cuda: bool = False,
    layouts: int | None = None,
    cuda_is_host: bool = False,
) -> None:
    """Makes the modules importable: tests run on one node of `ranks` ranks, with at most `repeats` random inputs
    and `layouts` random layouts on each placement, on the CPU alone unless `has_cuda`. With `cuda_is_host`, devices
    and CUDA placements are the host.
    """
    if cuda_is_host:
        _put_cuda_on_host()
    os.environ.update({"ONEFLOW_CI": "0"} if has_cuda else {"ONEFLOW_CI": "0", "ONEFLOW_TEST_CPU_ONLY": "1"})
    if ranks > 1:
        _simulate(ranks)
    _add("unittest", _unittest(ranks))
    _add("_oneflow_internal", _internal())
    for folder in ("test_utils", "support", "framework"):
        _add(folder, {"__path__": [str(checkout / "python/oneflow" / folder)]})
    _add("framework.tensor", {"Tensor": oneflow.Tensor, "TensorTuple": list})
    for name, public in _PUBLIC.items():
        _add(name, {**vars(public), "__path__": []})
    harness = importlib.import_module("oneflow.test_utils.automated_test_util")
    vars(harness)["autotest"] = _shortened(harness.autotest, repeats, graphs)
    all_layouts = getattr(harness, "all_sbp", None)
    if layouts is not None and all_layouts is not None:
        all_layouts._calc_value = _sampled(all_layouts._calc_value, layouts)
    generator = getattr(harness, "random", None)
    if generator is not None:
        generator._to = _with_older_annotations(generator._to)


def _add(name: str, attributes: dict[str, Any]) -> None:
    module = ModuleType(f"oneflow.{name}")
    vars(module).update({**attributes, "__name__": module.__name__})
    sys.modules[module.__name__] = module
    setattr(oneflow, name, module)


def _shortened(autotest: Callable[..., Any], repeats: int, graphs: bool) -> Callable[..., Any]:
    @functools.wraps(autotest)
    def shortened(n: int = repeats, *args: Any, **kwargs: Any) -> Any:
        return autotest(min(n, repeats), *args, **{**kwargs, **({} if graphs else {"check_graph": False})})

    return shortened


def _sampled(layouts_of: Callable[[Any], list[Any]], count: int) -> Callable[[Any], list[Any]]:
    """At most `count` of the layouts, each time others."""

    def sampled(self: Any) -> list[Any]:
        layouts = layouts_of(self)
        return random.sample(layouts, min(count, len(layouts)))

    return sampled


def _with_older_annotations(to: Callable[..., None]) -> Callable[..., None]:
    """The annotation of a parameter for a generator of random arguments: the harness expects an annotation made of
    `typing.Union` and `typing.Tuple`.
    """
    return lambda self, annotation: to(self, _older(annotation))


def _older(annotation: Any) -> Any:
    arguments = tuple(map(_older, get_args(annotation)))
    if get_origin(annotation) in (Union, UnionType):
        return Union[arguments]  # noqa: UP007
    return Tuple[arguments] if get_origin(annotation) is tuple else annotation  # noqa: UP006


def _simulate(ranks: int) -> None:
    """Tells tests that the job has `ranks` ranks, of which this process, the first rank, simulates all."""
    os.environ["RANK"] = "0"
    _add("env", {**vars(oneflow.env), "get_world_size": lambda: ranks})
    mock.patch.object(Placement, "all", lambda type="cpu": Placement(type, range(ranks))).start()


def _put_cuda_on_host() -> None:
    """Replaces CUDA devices and placements by the host."""
    kind, named, make_placement = type(Device), type(Device).__call__, Placement.__init__
    mock.patch.object(kind, "__call__", lambda cls, *_, **__: named(cls, "cpu")).start()
    mock.patch.object(Placement, "__init__", lambda self, type, ranks: make_placement(self, "cpu", ranks)).start()


def _skip_unless(nodes: int, devices: int, ranks: int) -> Callable[[], Any]:
    here = (nodes, devices) == (1, ranks)
    return lambda: (lambda f: f) if here else unittest.skip(f"for {nodes} nodes of {devices} devices")


class TestCase(unittest.TestCase):
    """Tests that compare the messages of errors by the facts that they state (`messages.py`)."""

    def assertRaises(self, expected_exception: Any, *args: Any, **kwargs: Any) -> Any:
        if args:
            return super().assertRaises(expected_exception, *args, **kwargs)
        return self._raised(super().assertRaises(expected_exception))

    @contextlib.contextmanager
    def _raised(self, context: Any) -> Iterator[SimpleNamespace]:
        raised = SimpleNamespace()
        with context:
            yield raised
        raised.exception = _Error(context.exception)


class _Error:
    """An error whose message contains the texts whose facts it states."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __str__(self) -> str:
        return Message(self.error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.error, name)


def _unittest(ranks: int) -> dict[str, Any]:
    """The names of `oneflow.unittest` on one node of `ranks` ranks."""
    environment = {
        "eager_execution_enabled": lambda: True,
        "typing_check_enabled": lambda: False,
        "device_num": lambda: ranks,
        "node_size": lambda: 1,
        "world_size": lambda: ranks,
    }
    return {
        **{f"skip_unless_{n}n{d}d": _skip_unless(n, d, ranks) for n in (1, 2) for d in (1, 2, 4)},
        "env": type("env", (), {name: staticmethod(f) for name, f in environment.items()}),
        "TestCase": TestCase,
        "MLIRTestCase": TestCase,
        "num_nodes_required": lambda _: lambda f: f,
        "dataset_dir": lambda folder="": os.path.join(os.environ.get("ONEFLOW_TEST_DATASET_DIR", "/dataset"), folder),
    }


def _internal() -> dict[str, Any]:
    """The names of `oneflow._oneflow_internal`; with one rank, sending a value between processes is the identity."""
    return {
        "Tensor": oneflow.Tensor,
        "TensorTuple": list,
        "_C": oneflow._C,
        "eager": SimpleNamespace(Sync=lambda: None, ClusterSync=lambda: None),
        "flags": SimpleNamespace(cuda_version=lambda: 0, with_cuda=lambda: False),
        "cpu_broadcast": lambda value, _: value,
        "__path__": [],
    }
