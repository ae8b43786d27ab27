"""SBP: signatures of programs, and the way from one layout of a tensor to another."""
