"""Validation, model files, memory, signals and progress: what every room uses."""
