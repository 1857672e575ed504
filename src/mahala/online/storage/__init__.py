"""How the online learners hold their matrix."""
