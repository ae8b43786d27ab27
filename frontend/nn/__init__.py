"""Modules: layers with parameters, containers, losses, initialisation, and whole training steps (`Graph`)."""
