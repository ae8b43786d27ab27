"""oneflow-mlir: OneFlow's operators as an MLIR dialect defined in Python."""
