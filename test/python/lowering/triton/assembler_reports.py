"""Compiled kernels with the assembler's report: registers, spills, and warnings such as serialized products."""

import contextlib
import io
import re

from oneflow.runtime.cuda.compiler import compile_source, triton


def compile_with_report(source):
    """The binary of a kernel for sm_90 and the report of the run of the assembler that made the binary."""
    nvidia, report = triton("knobs").nvidia, io.StringIO()
    with nvidia.scope(), contextlib.redirect_stdout(report):
        nvidia.dump_ptxas_log = True
        binary = compile_source(source)
    assert "Used " in report.getvalue(), "the assembler has reported nothing"
    return binary, report.getvalue()


def spilled(report):
    """The spilled bytes of a thread."""
    return sum(map(int, re.findall(r"(\d+) bytes spill stores", report)))
