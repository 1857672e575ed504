# The public names of this package, loaded on first use.
from mahala.stream.input import read_lines as read_lines
from mahala.stream.stream import Learned as Learned
from mahala.stream.stream import Malformed as Malformed
from mahala.stream.stream import Stream as Stream

__all__: list[str]
