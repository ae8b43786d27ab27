"""PyTorch programs as programs of this library. The folder needs the extra `torch`.

`fx_interpreter.py` interprets an FX graph of functional ATen operators with the builders in `aten/`. `module.py` is
`flow.from_torch`; `backend.py` is the backend `oneflow` of `torch.compile`.
"""
