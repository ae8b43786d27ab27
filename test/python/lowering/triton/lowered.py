"""Programs in the form that the GPU backend reads."""

from oneflow.dialect._mlir import ir
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.dialect.record import REGISTRY
from oneflow.lowering.pipelines import pipeline_between
from oneflow.lowering.triton.launch.program import read_program
from oneflow.passes.pipeline import Pipeline


def lower(text):
    """The kernels and the plan of a program in text."""
    context = create_context()
    with context, ir.Location.unknown():
        module = read_module(text, context)
        Pipeline.parse(pipeline_between(None, "triton"), context).run(module, REGISTRY)
        return read_program(module)
