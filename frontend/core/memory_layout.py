"""`flow.strided`: the memory layout of every tensor, for programs that query the layout as in PyTorch."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """A memory layout of tensors: `flow.layout`."""

    name: str

    def __repr__(self) -> str:
        return f"oneflow.{self.name}"


#: Elements at strides; no tensor is sparse.
strided = Layout("strided")
