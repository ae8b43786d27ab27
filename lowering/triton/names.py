"""The attributes of the `triton` stage."""

#: A kernel's source and how it is launched; an entry's plan.
SOURCE, PLAN = "oneflow.triton", "oneflow.plan"
