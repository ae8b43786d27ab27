"""ONNX: `oneflow.onnx.backend` is a backend of `onnx.backend`. It needs the package `onnx`."""
