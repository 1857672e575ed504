"""Sums on a device of PyTorch, such as a GPU."""
