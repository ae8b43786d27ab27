"""An operator of a user's own."""

from oneflow.dialect.elementwise import elementwise

elementwise("user_twice(x) -> y", "x + x.", scalar=lambda x: x + x, reference=lambda x: x + x)
