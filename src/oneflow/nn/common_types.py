"""Types of sizes in annotations: one number, or a tuple of one for each dimension.

The types are those of `typing`, as in PyTorch: programs take them apart.
"""

# ruff: noqa: UP006, UP007, UP035
from typing import Tuple, Union

_size_any_t = Union[int, Tuple[int, ...]]
_size_1_t = Union[int, Tuple[int]]
_size_2_t = Union[int, Tuple[int, int]]
_size_3_t = Union[int, Tuple[int, int, int]]
_size_4_t = Union[int, Tuple[int, int, int, int]]
_size_5_t = Union[int, Tuple[int, int, int, int, int]]
_size_6_t = Union[int, Tuple[int, int, int, int, int, int]]
_ratio_any_t = Union[float, Tuple[float, ...]]
_ratio_2_t = Union[float, Tuple[float, float]]
_ratio_3_t = Union[float, Tuple[float, float, float]]
