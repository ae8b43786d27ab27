"""Compiled functions: specializations, the cache of specializations, backward programs."""
