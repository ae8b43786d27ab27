"""The device of the tensors in tests of shared memory, on the host or on a device, and the first values."""

import numpy as np

import oneflow as flow

F32 = np.float32


def counted(*shape):
    return np.arange(np.prod(shape), dtype=F32).reshape(shape)


class OnHost:
    """Tensors on the host."""

    def tensor(self, array):
        return flow.tensor(array)


class OnDevice(OnHost):
    """Tensors on a device."""

    def tensor(self, array):
        return flow.tensor(array).to("cuda")
