"""The errors of metric-learn."""

from numpy.linalg import LinAlgError


class PreprocessorError(Exception):
    """The preprocessor failed on the indicators that it was given."""

    def __init__(self, original_error: Exception) -> None:
        super().__init__(f"An error occurred when trying to use the preprocessor: {original_error!r}")


class NonPSDError(LinAlgError):
    """A matrix has a negative eigenvalue."""

    def __init__(self) -> None:
        super().__init__("Matrix is not positive semidefinite (PSD).")
