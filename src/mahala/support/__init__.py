"""Validation, parameters, model files, memory, signals and progress, for all other folders."""
