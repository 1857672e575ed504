"""An input while it is read: which of its lines are new, told by the position that was saved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from mahala.stream.position import HEAD, Position, Progress, mark
from mahala.support.parameters import ParameterError

# Lines of another input, after one that was read to its end, that are not saved before more are read.
UNSAVED = 8


class Input:
    """Find the lines of an input that are new: those after the known position, or all if it is another input.

    Attributes
    ----------
    progress : the position so far
    skipped : number of lines at the start that had been learned from before
    is_known : whether the known position is one in this input
    began_anew : whether this is a new input, after another one was read to its end
    is_undecided : whether the next lines may show that a new input is the known one, edited
    """

    def __init__(self, path: str, known: Position) -> None:
        self.progress = Progress()
        self.skipped = 0
        self.is_known = self.began_anew = self.is_undecided = False
        self._known = known
        self._path = path

    def unread(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        """Return the new lines; raise ValueError if the input is neither the known one nor another one."""
        known, progress = self._known, Progress()
        if known.lines == 0:
            return lines
        first: list[bytes] = []
        for line in lines:
            progress.add(line)
            if progress.lines <= HEAD:
                first.append(line)
                if progress.head[-1] != known.head[progress.lines - 1]:
                    if not known.ended:
                        raise self._refused(
                            f"the input differs in line {progress.lines} from the one that was read up to line "
                            f"{known.lines}, but not to its end; continue with that one"
                        )
                    return self._other(first, lines)
            if progress.lines == known.lines:
                if progress.position().digest != known.digest:
                    raise self._refused(
                        f"the input was changed before line {known.lines}, up to which it has been read; give the "
                        "original"
                    )
                self.progress, self.skipped, self.is_known = progress, known.lines, True
                return lines
        if progress.lines or not known.ended:
            raise self._refused(
                f"the input ends after {progress.lines} lines, but it had been read up to line {known.lines}; "
                "give all of it"
            )
        return lines

    def _refused(self, reason: str) -> ParameterError:
        """Return the error for an input that is neither the known one nor another one."""
        way_out = f"or pass new_input=True to learn from its first line as a new input: {self._path}"
        return ParameterError(f"{reason}, {way_out}", "new_input")

    def _other(self, first: list[bytes], lines: Iterator[bytes]) -> Iterator[bytes]:
        """Return the lines of another input; raise ValueError once most of them are known, so that it was edited.

        Nothing is saved before that has shown itself. A line that the known input has twice says nothing.
        """
        error = self._refused(
            "most of the first lines of the input are those of the one that was read to its end, but not all: give "
            "the original"
        )
        known = {mark for mark, count in Counter(self._known.marks).items() if count == 1}
        shared = known & {mark(line) for line in first}
        if len(shared) > 1 and 2 * len(shared) > len(first):
            raise error
        self.began_anew = True

        def watched() -> Iterator[bytes]:
            self.is_undecided = True
            yield from first
            for number, line in enumerate(lines, start=len(first) + 1):
                if number <= HEAD:
                    shared.update(known & {mark(line)})
                    if len(shared) > 1 and 2 * len(shared) > number:
                        raise error
                self.is_undecided = number <= UNSAVED
                yield line
            self.is_undecided = False

        return watched()
