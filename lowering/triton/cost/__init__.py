"""The model that predicts the time of a kernel and chooses its configuration."""
