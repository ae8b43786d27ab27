"""Python functions as programs: eager mode, tracing, the functional API, compiled functions. `api.py` lists what
`import oneflow as flow` offers.
"""
