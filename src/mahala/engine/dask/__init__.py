"""Sums by the workers of a Dask cluster, or by the threads of Dask on one machine."""
