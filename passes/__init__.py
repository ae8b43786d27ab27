"""Passes: algorithms over records; they name no operator.

Importing this package registers nothing; `passes.all` imports every pass.
"""
