"""Compiled functions: specializations, their cache, their backward programs."""
