"""References of docstrings, which are in one form, and the same as BibTeX."""

import inspect
import re
import unicodedata
from typing import NamedTuple, Self

# The references of a docstring in numpydoc's form, up to the next section.
_SECTION = re.compile(r"^References\n-+\n(.*?)(?=\n\n|\Z)", re.DOTALL | re.MULTILINE)
_PARTS = re.compile(
    r"(?P<authors>[^:]+): (?P<title>.+?)\. (?P<venue>[^.]+?)(?: (?P<volume>\d+))?(?: \((?P<series>\w+)\))?"
    r"(?:, (?P<publisher>[^,\d]+))?, (?P<year>\d{4})(?:, (?P<pages>\d+-\d+))?\."
)
_NEXT = re.compile(r"(?<=\d\.)\s+(?=\w\.)")  # between the year or the pages of a reference and the initials of the next
# Commands of accents, by the combining characters of Unicode.
_ACCENTS = {"\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0308": '"', "\u030c": "v", "\u0327": "c"}
_SMALL_WORDS = ("a", "an", "on", "the")
_FORM = "A. Author, B. Author: Title. Journal 1, 2000, 1-10."


class Reference(NamedTuple):
    """A paper; what it does not have is None. `series` is the short name of a conference.

    >>> paper = Reference.parse("R. A. Fisher: The use of it. Annals 7, 1936, 179-188.")
    >>> paper.key, paper.volume
    ('fisher1936use', '7')
    >>> str(paper)
    'R. A. Fisher: The use of it. Annals 7, 1936, 179-188.'
    """

    authors: str
    title: str
    venue: str
    volume: str | None
    series: str | None
    publisher: str | None
    year: str
    pages: str | None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the paper of a reference; raise ValueError if it is not in the form of the others."""
        match = _PARTS.fullmatch(" ".join(text.split()))
        if match is None:
            raise ValueError(f"a reference must have the form {_FORM!r}, got {text!r}")
        return cls(**match.groupdict())

    def __str__(self) -> str:
        volume, series = f" {self.volume}" * bool(self.volume), f" ({self.series})" * bool(self.series)
        ends = [end for end in (self.publisher, self.year, self.pages) if end]
        return f"{self.authors}: {self.title}. {', '.join([self.venue + volume + series, *ends])}."

    @property
    def key(self) -> str:
        """The name of the first author, the year, and the first word of the title that is no article."""
        name = " ".join(word for word in self.authors.split(", ")[0].split() if not word.endswith("."))
        words = [word for word in re.findall(r"\w+", self.title) if word.lower() not in _SMALL_WORDS]
        ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
        return f"{re.sub(r'[^A-Za-z]', '', ascii_name)}{self.year}{words[0]}".lower()

    def bibtex(self) -> str:
        """Return the paper as an entry of BibTeX: an article if it has a volume but no conference."""
        is_article = self.volume is not None and self.series is None
        venue = self.venue if self.series is None else f"{self.venue} ({self.series})"
        fields = {
            "author": self.authors.replace(", ", " and "),
            "title": _protected(self.title),
            "journal" if is_article else "booktitle": venue.replace("&", r"\&"),
            "volume": self.volume,
            "publisher": self.publisher,
            "year": self.year,
            "pages": self.pages and self.pages.replace("-", "--"),
        }
        lines = [f"  {name} = {{{_accented(value)}}},\n" for name, value in fields.items() if value is not None]
        return f"@{'article' if is_article else 'inproceedings'}{{{self.key},\n{''.join(lines)}}}"


def references_of(kind: type) -> list[Reference]:
    """Return the papers in the docstring of a class; raise ValueError if it names none."""
    match = _SECTION.search(inspect.cleandoc(kind.__doc__ or ""))
    if match is None:
        raise ValueError(f"{kind.__name__} has no paper to cite: its docstring has no section References")
    return [Reference.parse(text) for text in _NEXT.split(match[1])]


def _protected(title: str) -> str:
    """Return a title in which words keep their capitals, of which BibTeX styles would make small letters."""
    first, *others = re.split(r"\b", title.replace("&", r"\&"))[1:]
    kept = [first if not re.search(r"[A-Z]", first[1:]) else f"{{{first}}}"]
    return "".join(kept + [f"{{{word}}}" if re.search(r"[A-Z]", word) else word for word in others])


def _accented(text: str) -> str:
    """Return text with accents as commands of LaTeX, since BibTeX sorts and shortens names of ASCII only."""
    letters = rf"(\w)([{''.join(_ACCENTS)}])"
    text = re.sub(
        letters, lambda found: f"{{\\{_ACCENTS[found[2]]}{{{found[1]}}}}}", unicodedata.normalize("NFD", text)
    )
    return unicodedata.normalize("NFC", text)
