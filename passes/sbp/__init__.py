"""SBP: signatures of programs, and the steps from one layout of a tensor to another."""
