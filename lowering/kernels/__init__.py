"""From linalg on tensors to kernels: which operations become one loop nest."""
