"""Modules: layers with parameters, containers, losses, initialization, and whole training steps (`Graph`)."""
