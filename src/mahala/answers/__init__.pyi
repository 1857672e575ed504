# The public names of this package, loaded on first use.
from mahala.answers.questions import candidates as candidates
from mahala.answers.questions import usefulness as usefulness
from mahala.answers.teacher import Teacher as Teacher

__all__: list[str]
