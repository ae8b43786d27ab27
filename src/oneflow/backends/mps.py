"""Apple's GPUs, for which there are no kernels."""

__all__ = ["is_available"]


def is_available() -> bool:
    """False: programs run on the CPU and on NVIDIA's GPUs."""
    return False
