"""`flow.strided`: how every tensor lies in memory, for programs that ask as PyTorch's do."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """A way in which tensors lie in memory: `flow.layout`."""

    name: str

    def __repr__(self) -> str:
        return f"oneflow.{self.name}"


#: Elements at strides; no tensor is sparse.
strided = Layout("strided")
