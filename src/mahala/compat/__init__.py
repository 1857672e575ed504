"""Other libraries' interfaces over mahala's learners."""
