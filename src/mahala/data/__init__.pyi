# The public names of this package, loaded on first use.
from mahala.data.preprocessing import TablePreprocessor as TablePreprocessor
from mahala.data.search_files import read_qrels as read_qrels
from mahala.data.search_files import read_vectors as read_vectors
from mahala.data.tables import read_table as read_table

__all__: list[str]
