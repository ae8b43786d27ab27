"""Programs on CUDA devices, without PyTorch."""
