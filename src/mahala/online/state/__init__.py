"""The states of the online learners: a matrix and what is kept beside it."""
