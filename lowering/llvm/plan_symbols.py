"""Names and declarations of the functions that kernels and plans call.

Kernels take memrefs and plans pass addresses, so a plan calls a function by a declaration of its own, `@<name>.plan`,
which `define_launches` resolves.
"""

from __future__ import annotations

from oneflow.lowering.llvm.writer import POINTER, reference

#: The type of addresses in a plan: LLVM's type, so that a plan of many launches needs little further lowering.
ADDRESS = "!llvm.ptr"
#: The suffix of the names by which a plan calls functions that take memrefs.
PLAN_SUFFIX = ".plan"
#: The prefix of the functions of the runtime.
RUNTIME_PREFIX = "oneflow_rt_"


def plan_symbol(name: str) -> str:
    """The symbol of the plan of entry `name`. The prefix avoids clashes with kernels and functions of libm."""
    return f"oneflow_plan_{name}"


def plan_declaration(name: str, parameters: str, result: str = "") -> str:
    """The declaration of a function for calls in a plan."""
    returned = f" -> {result}" if result else ""
    text = f"func.func private {reference(name + PLAN_SUFFIX)}({parameters}){returned}".replace(POINTER, ADDRESS)
    return f"{text} attributes {{oneflow.planned = {reference(name)}}}"


def copy_text(target: str, source: str, size: str) -> str:
    """A copy of `size` bytes in a plan."""
    arguments, types = f"{target}, {source}, {size}", f"{ADDRESS}, {ADDRESS}, index"
    return f"func.call @oneflow_rt_copy{PLAN_SUFFIX}({arguments}) : ({types}) -> ()"


#: The functions of the runtime that kernels call.
KERNEL_RUNTIME = """
func.func private @oneflow_rt_alloc(index) -> memref<1xi8>
func.func private @oneflow_rt_temporary(index) -> memref<1xi8>
func.func private @oneflow_rt_release(memref<1xi8>)
func.func private @oneflow_rt_times(index, index) -> index
func.func private @oneflow_rt_copy(memref<1xi8>, memref<1xi8>, index)
func.func private @oneflow_rt_failed() -> i64
func.func private @oneflow_rt_parallel_for(memref<1xi8>, memref<1xi8>, index, index)
func.func private @oneflow_rt_check_index(i64, i64, i32) -> i64
func.func private @oneflow_rt_check_size(i64, i64, i32)
func.func private @oneflow_rt_call(i64, i64, i64, i32)
"""
#: The functions of the runtime that plans call with addresses.
PLAN_RUNTIME = (
    plan_declaration("oneflow_rt_alloc", "index", ADDRESS),
    plan_declaration("oneflow_rt_temporary", "index", ADDRESS),
    plan_declaration("oneflow_rt_release", ADDRESS),
    plan_declaration("oneflow_rt_copy", f"{ADDRESS}, {ADDRESS}, index"),
)
