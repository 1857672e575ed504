"""Compiled nearest neighbours and rankings."""
