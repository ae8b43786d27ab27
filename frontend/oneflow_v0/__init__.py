"""The API of OneFlow's older documents: job functions, variables, scopes."""
