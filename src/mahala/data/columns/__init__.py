"""Columns of tables: files to data frames, cells to values, values to features."""
