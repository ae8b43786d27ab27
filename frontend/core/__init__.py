"""What every part of the frontend stands on: tensors, dispatch, arrays, devices, errors."""
