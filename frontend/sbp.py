"""`flow.sbp`: how a tensor lies along one axis of a mesh. Imports the dialect."""

from oneflow.dialect.sbp import B, P, S

#: Cut along an axis: `split(0)`.
split = S
#: Whole on every rank.
broadcast = B
#: Every rank has a term of the sum that the tensor is.
partial_sum = P

__all__ = ["broadcast", "partial_sum", "split"]
