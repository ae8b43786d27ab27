"""Models of other frameworks as programs of this library."""
