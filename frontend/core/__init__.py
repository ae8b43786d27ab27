"""The base of the frontend: tensors, dispatch, arrays, devices, errors."""
