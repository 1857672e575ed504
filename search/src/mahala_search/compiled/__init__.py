"""Compiled functions of search: pages of results, rankings, and changes of a map that wait."""
