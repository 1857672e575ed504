# The public names of this package, loaded on first use.
from mahala.data.preprocessing import TablePreprocessor as TablePreprocessor
from mahala.data.tables import read_table as read_table
from mahala.data.vector_files import read_vectors as read_vectors

__all__: list[str]
