"""The commands: oneflow-opt, oneflow-run, oneflow-translate."""
