"""An operator whose SBP function fails."""

import oneflow as flow


def unknown(op):
    raise ValueError("nothing is known of it")


@flow.operator("lit_failing_sbp(x) -> y")
class Failing:
    types = "x"
    sbp = unknown
    kernel = flow.numpy_kernel(lambda x: x)
