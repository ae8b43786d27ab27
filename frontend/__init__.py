"""Python functions become programs: tracing, tensors, the functional API, compiled functions.

`api.py` lists what `import oneflow as flow` offers.
"""
