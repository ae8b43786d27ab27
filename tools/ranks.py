"""Programs of many ranks on the command line: starts ranks, runs programs, and reports errors once."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from oneflow.dialect._mlir import ir
from oneflow.dialect.nd_sbp import Mesh, devices
from oneflow.lowering.pipelines import STAGES as RANK_STAGES
from oneflow.passes.sbp import annotations as notes
from oneflow.runtime.collectives import mpi
from oneflow.runtime.collectives.threads import ThreadWorld
from oneflow.runtime.collectives.transport import World, WorldError
from oneflow.runtime.distributed import DistributedExecutable, compile_distributed, lay_out
from oneflow.runtime.global_array import Placement
from oneflow.runtime.ranks import world_of
from oneflow.tools.command import UsageError, print_error

#: The lines that launchers print when a rank ends.
_LAUNCHER_OUTPUT = re.compile(
    r"(^=+|^=   .*|^YOUR APPLICATION TERMINATED.*|^This typically refers to a problem.*|^Please see the FAQ page.*"
    r"|Abort\(\d+\) on node.*|^MPI_ABORT was invoked.*|^-{20,}|^prterun .*|^mpirun noticed.*"
    r"|\[(mpiexec|proxy)[@:].*)$"
)
_RANK = "ONEFLOW_RUN_RANK"
#: The stages at which `--print-ir-after` prints a program of many ranks.
STAGES = ("sbp", "physical", *RANK_STAGES)


def start_ranks(command: Sequence[str], count: int) -> int:
    """Runs a command of the package as `count` ranks of an MPI job; returns the exit status.

    Raises:
        UsageError: the launcher is missing.
    """
    line = [*launcher(), "-n", str(count), sys.executable, "-m", *command]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "errors": "replace"}
    with subprocess.Popen(line, env={**os.environ, _RANK: "1"}, **pipes) as job:
        streams = [(job.stdout, sys.stdout), (job.stderr, sys.stderr)]
        threads = [threading.Thread(target=_forward, args=way) for way in streams]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return int(job.returncode != 0)


def _forward(source: TextIO, target: TextIO) -> None:
    """Forwards lines, without the lines of launchers."""
    for text in source:
        line = _LAUNCHER_OUTPUT.sub("", text.rstrip("\n"))
        if line or text == "\n":
            print(line, file=target, flush=True)


def is_rank() -> bool:
    """Whether an MPI launcher has started this process."""
    return _RANK in os.environ or mpi.launched()


def launcher() -> list[str]:
    """The command that starts ranks: `mpiexec` next to the interpreter, or on the path.

    Raises:
        UsageError: no launcher is installed.
    """
    interpreter_folder = Path(sys.executable).parent
    candidates = [(name, path) for path in (str(interpreter_folder), None) for name in ("mpiexec", "mpirun")]
    launcher_path = next(filter(None, (shutil.which(name, path=path) for name, path in candidates)), None)
    if launcher_path is None:
        raise UsageError(f"--nproc: expected mpiexec in the folder of {sys.executable} or on the path; {mpi.HINT}")
    version = subprocess.run([launcher_path, "--version"], capture_output=True, text=True, check=False).stdout
    if "HYDRA" in version:
        return [launcher_path]
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    # Open MPI would bind each of two ranks to a single core for all its threads.
    return [launcher_path, "--oversubscribe", "--bind-to", "none", *root]


def report(message: str) -> None:
    """Prints an error. In a job, the first rank with an error prints it and ends all ranks."""
    if is_rank():
        try:
            job = mpi.world()
        except WorldError as error:
            message = f"{message}\noneflow: error: {error}"
        else:
            if job.size > 1:
                job.fail(message)
    print_error(message)


def find_mesh(module: ir.Module, wanted: str | None) -> Mesh | None:
    """The mesh of a program, or the mesh of the option; None without a mesh.

    Raises:
        PassError: the text is not a list of positive sizes.
    """
    if wanted is not None:
        sizes = tuple(int(n) if n.isdecimal() else 0 for n in wanted.split(","))
        with module.context:
            notes.write_mesh(module.operation, notes.check_mesh(sizes, f"--mesh {wanted}"))
    return notes.read_mesh(module.operation) if notes.MESH in module.operation.attributes else None


def prepare(
    module: ir.Module, entry: str, mesh: Mesh, strategy: str, simulate: bool, device: str = "cpu"
) -> DistributedExecutable:
    """Compiles the programs of the ranks that this process runs.

    Raises:
        UsageError: the job does not have the number of ranks of the mesh.
        PassError: a pass could not do its work.
        WorldError: ranks have other programs.
    """
    placement = Placement(device, np.arange(devices(mesh)).reshape(mesh)).within(_world(mesh, simulate))
    return compile_distributed(lay_out(module, strategy, device=device), entry, placement)


def _world(mesh: Mesh, simulate: bool) -> World:
    count = devices(mesh)
    if simulate:
        return ThreadWorld(count)
    size = mpi.world().size if is_rank() else 1
    if size != count:
        shape = "x".join(map(str, mesh))
        raise UsageError(
            f"expected {count} ranks for the program's mesh of {shape}, got {size}; run"
            f" oneflow-run --nproc {count}, mpirun -n {count} oneflow-run, or simulate them with --simulate"
        )
    return world_of(count)
