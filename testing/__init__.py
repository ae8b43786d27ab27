"""Testing operators and programs: samples, the checks every operator gets, and lit's configuration."""
