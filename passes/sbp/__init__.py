"""SBP: signatures of programs, and the steps from one layout of a tensor to another."""

#: How layouts are chosen: operator by operator in program order, or the cheapest of the whole function.
STRATEGIES = ("greedy", "auto")
