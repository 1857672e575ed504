"""metric-learn's SCML and SCML_Supervised."""

from typing import Any

from mahala.compat.metric_learn.base_metric import MahalanobisMixin


class _BaseSCML(MahalanobisMixin):
    _bases: tuple[str, ...] = ("triplet_diffs",)

    def __init__(
        self,
        beta: float = 1e-5,
        basis: Any = "triplet_diffs",
        n_basis: int | None = None,
        gamma: float = 5e-3,
        max_iter: int = 10000,
        output_iter: int = 500,
        batch_size: int = 10,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(preprocessor)
        self.beta, self.basis, self.n_basis, self.gamma, self.max_iter = beta, basis, n_basis, gamma, max_iter
        self.output_iter, self.batch_size, self.verbose, self.random_state = (
            output_iter,
            batch_size,
            verbose,
            random_state,
        )

    def _check_counts(self, *names: str) -> None:
        for name in names:
            if not isinstance(value := getattr(self, name), int):
                article = "an integer, instead it is of type"
                raise ValueError(f"{name} should be {article} {type(value)}")
        if self.output_iter > self.max_iter:
            raise ValueError("The value of output_iter must be equal or smaller than max_iter.")
