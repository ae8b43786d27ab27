"""ONNX: `oneflow.onnx.backend` is a backend of `onnx.backend`, which needs the package `onnx`."""
