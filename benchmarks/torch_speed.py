"""Times imported PyTorch models against eager PyTorch and torch.compile, and their start; writes to results.md.

    python benchmarks/torch_speed.py [NAME ..] [--print] [--rounds 21]

Models have random parameters. All libraries have one thread and are called in turn; times are processor time. Each
model runs in two processes: in the first, the cache of programs is empty. Seconds to import are those of
`flow.from_torch` for an exported program, seconds of the first call include the compilation.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import torch
from alternating import ONE_THREAD, cells, measured, seconds, table
from foundation import machine
from results_page import write_part
from torch_models import Tensors, define_torchvision

import oneflow as flow

IMAGE = (1, 3, 224, 224)
TOKENS = (1, 128)
#: The largest difference relative to the largest element of a result.
TOLERANCE = 1e-3
HEADING = "## PyTorch models"


def _torchvision(name: str) -> Callable[[], Any]:
    return lambda: getattr(importlib.import_module("torchvision").models, name)()


def _transformers(name: str) -> Callable[[], Any]:
    def make() -> Any:
        transformers = importlib.import_module("transformers")
        config = getattr(transformers, f"{name}Config")()
        config.use_cache = False
        return getattr(transformers, f"{name}Model")(config)

    return make


#: The models by name: how each is made, the name of its input, and the input's shape.
MODELS: dict[str, tuple[Callable[[], Any], str, tuple[int, ...]]] = {
    "ResNet-18": (_torchvision("resnet18"), "x", IMAGE),
    "ResNet-50": (_torchvision("resnet50"), "x", IMAGE),
    "MobileNetV2": (_torchvision("mobilenet_v2"), "x", IMAGE),
    "ViT-B/16": (_torchvision("vit_b_16"), "x", IMAGE),
    "BERT base": (_transformers("Bert"), "input_ids", TOKENS),
    "GPT-2": (_transformers("GPT2"), "input_ids", TOKENS),
}


def measure_here(name: str, rounds: int) -> dict[str, Any]:
    """The times of a model: of the start, and of calls in turn unless `rounds` is 0."""
    make, argument, shape = MODELS[name]
    _ = define_torchvision()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Tensors(make().eval())
    inputs = {argument: torch.randn(shape) if shape == IMAGE else torch.randint(0, 1000, shape)}
    with torch.no_grad():
        exporting, exported = seconds(lambda: torch.export.export(model, (inputs,)))
        importing, program = seconds(lambda: flow.from_torch(exported))
        first, results = seconds(lambda: program(inputs))
        starts = [exporting, importing, first]
        if not rounds:
            return {"starts": starts}
        difference = max(
            float((a - b).abs().max() / b.abs().max()) for a, b in zip(results, model(inputs), strict=True)
        )
        assert difference < TOLERANCE, f"{name} differs by {difference:.1e}"
        compiled = torch.compile(model)
        calls = [lambda: program(inputs), lambda: model(inputs), lambda: compiled(inputs)]
        return {"starts": starts, "times": measured(calls, rounds)}


def measure(name: str, rounds: int) -> tuple[str, str]:
    """The rows of a model in the tables of calls and of starts."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, **ONE_THREAD, "ONEFLOW_CACHE_DIR": cache}
        cold, cached = (_in_process(name, count, environment) for count in (rounds, 0))
    shape = " x ".join(map(str, MODELS[name][2]))
    exporting, importing, first = cold["starts"]
    start = [f"{t:.2f} s" for t in (exporting, importing, first, *cached["starts"][1:])]
    return (
        f"| {name}, {shape} | {' | '.join(cells(cold['times'], 3))} |",
        f"| {name}, {shape} | {' | '.join(start)} |",
    )


def _in_process(name: str, rounds: int, environment: dict[str, str]) -> dict[str, Any]:
    command = [sys.executable, __file__, name, "--here", "--rounds", str(rounds)]
    ended = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    measurements: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return measurements


def section(names: list[str], rounds: int) -> str:
    """The part of results.md about these models."""
    calls, starts = zip(*(measure(name, rounds) for name in names), strict=True)
    about = (
        f"By `python benchmarks/torch_speed.py` on: {machine()}; PyTorch {torch.__version__}; one thread; processor "
        f"time, calls: medians of {rounds} alternating calls. The load of the machine was {os.getloadavg()[0]:.1f}."
    )
    call_head = "| model | ours | eager | torch.compile | eager / ours | torch.compile / ours | noise |"
    start_head = "| model | export | import | first call | import, cached | first call, cached |"
    return "\n".join([HEADING, "", about, "", *table(call_head, calls), "", *table(start_head, starts)]) + "\n"


def main() -> None:
    """Writes or prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"the models (default: {', '.join(MODELS)})")
    parser.add_argument("--print", action="store_true", help="print instead of writing results.md")
    parser.add_argument("--rounds", type=int, default=21, help="calls of each library (default: 21)")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in MODELS]
    if unknown:
        parser.error(f"expected models among {', '.join(MODELS)}, got {unknown[0]}")
    if options.here:
        print(json.dumps(measure_here(options.names[0], options.rounds)))
        return
    part = section(options.names or list(MODELS), options.rounds)
    write_part(part, options.print)


if __name__ == "__main__":
    main()
