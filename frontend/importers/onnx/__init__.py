"""ONNX models: a table from operators to calls of the functional API, and an interpreter that runs or traces a
model.
"""
