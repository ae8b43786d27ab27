"""PyTorch programs as programs of this library. The folder needs the extra `torch`.

`graph.py` walks an FX graph of functional ATen operators and calls the builders that `aten/` lists. `module.py` is
`flow.from_torch`; `backend.py` is the backend `oneflow` of `torch.compile`.
"""
