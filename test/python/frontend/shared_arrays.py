"""Functions that read and update tensors which share the memory of arrays, of NumPy and on a device; as in
`shared_views`.
"""

import numpy as np
from shared_memory import counted

import oneflow as flow


def overlapping(on):
    array = counted(12)
    return flow.from_numpy(array[:8]), flow.from_numpy(array[4:])


def arrays_of_numpy(first, second):
    """Tensors in the memory of one array of NumPy."""

    def made(on):
        array = counted(12)
        a, b = flow.from_numpy(first(array)), flow.from_numpy(second(array))

        def f(x):
            a.add_(x)
            sum_ = b.sum() + a.sum()
            b.mul_(2)
            return sum_, a * 1, b + 1

        return f, [a, b, array]

    return made


def view_of_an_array(on):
    array = counted(12)
    v, b = flow.from_numpy(array)[1:8], flow.from_numpy(array[4:])

    def f(x):
        b.add_(x)
        return v * 1

    return f, [v, b, array]


class Foreign:
    """An array of another library."""

    def __init__(self, array):
        self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__


def of_another_type(on):
    """Tensors of two element types in one array: a read of one tensor before an update of the other tensor."""
    array = counted(12)
    a, b = flow.from_numpy(array), flow.from_numpy(array.view(np.int32)[2:])

    def f(x):
        read = b * 2
        a.add_(x)
        return read, a * 1

    return f, [a, array]


class StridedArray:
    """An array of another library on a device: a part of an existing array."""

    def __init__(self, array, first, count):
        self.kept, known = array, array.__cuda_array_interface__
        address = known["data"][0] + first * array.dtype.numpy.itemsize
        self.__cuda_array_interface__ = {**known, "data": (address, False), "shape": (count,)}


def arrays_of_a_device(first, second):
    """Tensors in the memory of one array on a device."""

    def made(on):
        whole = on.tensor(counted(64)).storage
        a, b = (flow.from_numpy(StridedArray(whole, *part)) for part in (first, second))

        def f(x):
            a.add_(x)
            sum_ = b.sum() + a.sum()
            b.mul_(2)
            return sum_, a * 1, b + 1

        return f, [a, b]

    return made


def read_late(on):
    """A value that is read before an update and first used after the update."""
    whole = on.tensor(counted(64)).storage
    a, b = (flow.from_numpy(StridedArray(whole, *part)) for part in ((0, 40), (16, 48)))

    def f(x):
        before = b * 2
        a.mul_(x)
        rows = flow.softmax(flow.softmax(flow.softmax(a.reshape(8, 5), 1), 0), 1)
        return rows.sum() + before

    return f, [a, b]
