"""Gold word links: what people linked, read from the formats in which such corpora come.

Every reader returns a `GoldSet`: pairs of word lists with *sure* and *possible* links, indices from 0, and
possible ⊇ sure as the alignment error rate needs it (Och & Ney 2003, Computational Linguistics 29(1), section
2.1).

Four formats are read.

Pharaoh
    Three UTF-8 files with one pair a line: source words and target words (separated by blanks), and links
    `i-j` (sure) or `ipj` (possible), separated by blanks.
Edinburgh++ (Thadani, Martin & White 2012)
    A JSON list of objects with "source", "target", "sureAlign", "possibleAlign" and "id"; a second file, in
    which "sureAlign" holds sure and possible links of the same pairs, may come with it.
XL-WA (Martelli et al. 2023)
    Tab-separated lines: source words, target words, links as in Pharaoh.
sinkviz gold (our own)
    One JSON object::

        {"format": "sinkviz-gold", "version": 1, "name": "…", "licence": "…", "notes": "…",
         "pairs": [{"id": "de-01", "source_language": "en", "target_language": "de",
                    "source": "the cat sleeps", "target": "die Katze schläft",
                    "sure": "0-0 1-1 2-2", "possible": ""}]}

    "source" and "target" are words separated by single blanks, "sure" and "possible" (links beyond the sure
    ones) are Pharaoh links. "format", "version", "pairs" and in each pair "source", "target" and "sure" must
    be there; unknown keys are errors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WordLink = tuple[int, int]

MAX_BYTES = 64 * 2**20
MAX_PAIRS = 100_000
MAX_WORDS = 1_000
MAX_WORD_LENGTH = 1_000

_LINK = re.compile(r"(\d{1,6})([-p])(\d{1,6})", re.ASCII)
_BAD_CHARACTER = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_BLANK = " \t\n\r"


@dataclass(frozen=True)
class GoldPair:
    """Two lists of words and the links that people made between them.

    Attributes:
        source, target: the words.
        sure: links (i, j), source word i with target word j, counted from 0.
        possible: links that are not wrong; holds every sure link too.
        id: name of the pair within its set.
        source_language, target_language: BCP 47 codes, "" where the file does not say.

    Raises:
        ValueError: no words on a side, more than `MAX_WORDS`, words that are empty or hold blanks or control
            characters, links out of range.

    >>> pair = GoldPair(("a", "cat"), ("eine", "Katze"), frozenset({(1, 1)}), frozenset({(0, 0)}))
    >>> sorted(pair.possible)
    [(0, 0), (1, 1)]
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    sure: frozenset[WordLink]
    possible: frozenset[WordLink] = frozenset()
    id: str = ""
    source_language: str = ""
    target_language: str = ""

    def __post_init__(self) -> None:
        for side, words in (("source", self.source), ("target", self.target)):
            object.__setattr__(self, side, tuple(words))
            if not 1 <= len(words) <= MAX_WORDS:
                raise ValueError(f"{side}: expected 1 to {MAX_WORDS} words, got {len(words)}")
            for position, word in enumerate(words):
                if not word or word.isspace() or len(word) > MAX_WORD_LENGTH:
                    raise ValueError(
                        f"{side}: expected words of 1 to {MAX_WORD_LENGTH} characters, got {word[:20]!r} "
                        f"(length {len(word)}) at position {position}"
                    )
                if " " in word or _BAD_CHARACTER.search(word):
                    raise ValueError(
                        f"{side}: expected words without blanks, control characters and unpaired surrogates, "
                        f"got {word[:20]!r} at position {position}"
                    )
        object.__setattr__(self, "sure", frozenset(self.sure))
        object.__setattr__(self, "possible", frozenset(self.possible) | self.sure)
        for i, j in self.possible:
            if not (0 <= i < len(self.source) and 0 <= j < len(self.target)):
                raise ValueError(
                    f"links: expected source indices below {len(self.source)} and target indices below "
                    f"{len(self.target)} (counted from 0), got {i}-{j}"
                )


@dataclass(frozen=True)
class GoldSet:
    """A named list of gold pairs.

    Attributes:
        name: what to call it in tables.
        pairs: the pairs, in the order of the file.
        licence: as the file states it, "" where it does not.
        notes: anything else that the file says about itself.
    """

    name: str
    pairs: tuple[GoldPair, ...]
    licence: str = ""
    notes: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "pairs", tuple(self.pairs))
        if not 1 <= len(self.pairs) <= MAX_PAIRS:
            raise ValueError(f"{self.name}: expected 1 to {MAX_PAIRS} pairs, got {len(self.pairs)}")
        if not any(pair.sure for pair in self.pairs):
            raise ValueError(f"{self.name}: expected at least one sure link in the set, got none")

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def languages(self) -> tuple[str, ...]:
        """The pairs of languages in the set, as "en-de", sorted; pairs without codes are left out."""
        found = {f"{p.source_language}-{p.target_language}" for p in self.pairs if p.target_language}
        return tuple(sorted(found))

    def subset(self, indices: Iterable[int]) -> GoldSet:
        """Return the set of the pairs at these positions."""
        return GoldSet(self.name, tuple(self.pairs[k] for k in indices), self.licence, self.notes)


def parse_links(field: str, *, index_base: int = 0) -> tuple[frozenset[WordLink], frozenset[WordLink]]:
    """Return the sure and the possible links of a Pharaoh field.

    Args:
        field: `i-j` for a sure link, `ipj` for a possible one, separated by blanks.
        index_base: 0 or 1, the index of the first word in `field`.

    Raises:
        ValueError: anything else in the field, an index below `index_base`.

    >>> parse_links("0-0 1p2")
    (frozenset({(0, 0)}), frozenset({(1, 2)}))
    """
    if index_base not in (0, 1):
        raise ValueError(f"index_base: expected 0 or 1, got {index_base!r}")
    sure: set[WordLink] = set()
    possible: set[WordLink] = set()
    for item in field.split():
        match = _LINK.fullmatch(item)
        if match is None:
            raise ValueError(f"links: expected i-j (sure) or ipj (possible), separated by blanks, got {item[:30]!r}")
        link = int(match[1]) - index_base, int(match[3]) - index_base
        if min(link) < 0:
            raise ValueError(f"links: expected indices counted from {index_base}, got {item!r}")
        (sure if match[2] == "-" else possible).add(link)
    return frozenset(sure), frozenset(possible)


def format_links(sure: Iterable[WordLink], possible: Iterable[WordLink] = ()) -> str:
    """Return links as a Pharaoh field, sorted; possible links that are sure are written once, as sure.

    >>> format_links({(1, 0), (0, 0)}, {(0, 0), (2, 1)})
    '0-0 1-0 2p1'
    """
    certain = set(sure)
    every = sorted(certain | set(possible))
    return " ".join(f"{i}-{j}" if (i, j) in certain else f"{i}p{j}" for i, j in every)


def _decode(data: bytes | str, name: str) -> str:
    if isinstance(data, str):
        text = data.removeprefix("\ufeff")
        if len(text) > MAX_BYTES:
            raise ValueError(f"{name}: expected at most {MAX_BYTES} bytes, got more; split the file")
        return text
    if len(data) > MAX_BYTES:
        raise ValueError(f"{name}: expected at most {MAX_BYTES} bytes, got {len(data)}; split the file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{name}, line {line}: expected UTF-8, got byte 0x{data[error.start]:02x}") from None


def _lines(text: str) -> list[str]:
    # Not splitlines(): it also breaks at characters such as U+2028, which may be inside a sentence.
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    while lines and not lines[-1].strip(_BLANK):
        lines.pop()
    return lines


def _words(field: str) -> tuple[str, ...]:
    # Only ASCII blanks separate words; a no-break space belongs to its word ("10 000" is one gold word).
    return tuple(word for word in field.strip(_BLANK).split(" ") if word)


def _check_count(count: int, name: str) -> None:
    if count > MAX_PAIRS:
        raise ValueError(f"{name}: expected at most {MAX_PAIRS} pairs, got {count}; split the file")


def parse_pharaoh(
    source: bytes | str,
    target: bytes | str,
    links: bytes | str,
    *,
    name: str = "pharaoh",
    index_base: int = 0,
) -> GoldSet:
    """Read three parallel texts: source words, target words, Pharaoh links; one pair a line.

    Raises:
        ValueError: unequal numbers of lines, or a line that does not hold what it should (its number is
            named).

    >>> gold = parse_pharaoh("the cat", "die Katze", "0-0 1-1")
    >>> gold.pairs[0].target
    ('die', 'Katze')
    """
    columns = [
        _decode(data, f"{name} ({part})") for data, part in ((source, "source"), (target, "target"), (links, "links"))
    ]
    lines = [_lines(column) for column in columns]
    length = max(len(lines[0]), len(lines[1]))
    # A pair without links is an empty line, so trailing empty lines of the link file count.
    given = [line.removesuffix("\r") for line in columns[2].split("\n")]
    if given and given[-1] == "":
        given.pop()
    lines[2] += [""] * max(0, min(len(given), length) - len(lines[2]))
    if not len(lines[0]) == len(lines[1]) == len(lines[2]):
        raise ValueError(
            f"{name}: expected three files of equally many lines, got {len(lines[0])} (source), "
            f"{len(lines[1])} (target) and {len(lines[2])} (links)"
        )
    _check_count(len(lines[0]), name)
    pairs = []
    for number, (left, right, field) in enumerate(zip(*lines, strict=True), start=1):
        try:
            sure, possible = parse_links(field, index_base=index_base)
            pairs.append(GoldPair(_words(left), _words(right), sure, possible, id=str(number)))
        except ValueError as error:
            raise ValueError(f"{name}, line {number}: {error}") from None
    return GoldSet(name, tuple(pairs))


def parse_xlwa(
    data: bytes | str, *, name: str = "xlwa", source_language: str = "en", target_language: str = ""
) -> GoldSet:
    """Read tab-separated lines: source words, target words, Pharaoh links.

    Raises:
        ValueError: a line that does not have three fields, or a field that is wrong (its line is named).

    >>> len(parse_xlwa("a cat\\tun gato\\t0-0 1-1\\n"))
    1
    """
    lines = _lines(_decode(data, name))
    _check_count(len(lines), name)
    pairs = []
    for number, line in enumerate(lines, start=1):
        fields = line.split("\t")
        try:
            if len(fields) != 3:
                raise ValueError(f"expected three fields separated by tabs (source, target, links), got {len(fields)}")
            sure, possible = parse_links(fields[2])
            pairs.append(
                GoldPair(
                    _words(fields[0]),
                    _words(fields[1]),
                    sure,
                    possible,
                    id=str(number),
                    source_language=source_language if target_language else "",
                    target_language=target_language,
                )
            )
        except ValueError as error:
            raise ValueError(f"{name}, line {number}: {error}") from None
    return GoldSet(name, tuple(pairs))


class _Json:
    """A walk through JSON that knows on which line each element of a list begins."""

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name
        self.position = 0
        self.decoder = json.JSONDecoder(parse_constant=self._constant)
        self._counted = (0, 1)
        self.skip()

    @staticmethod
    def _constant(constant: str) -> object:
        raise ValueError(f"expected numbers of JSON, got {constant}")

    @property
    def line(self) -> int:
        position, line = self._counted
        if self.position < position:
            position, line = 0, 1
        line += self.text.count("\n", position, self.position)
        self._counted = (self.position, line)
        return line

    def fail(self, message: str) -> ValueError:
        return ValueError(f"{self.name}, line {self.line}: {message}")

    def skip(self) -> None:
        while self.position < len(self.text) and self.text[self.position] in _BLANK:
            self.position += 1

    def peek(self) -> str:
        return self.text[self.position : self.position + 1]

    def take(self, token: str) -> None:
        if self.peek() != token:
            found = repr(self.peek()) if self.peek() else "the end of the file"
            raise self.fail(f"expected {token!r}, got {found}")
        self.position += 1
        self.skip()

    def value(self) -> Any:
        try:
            value, self.position = self.decoder.raw_decode(self.text, self.position)
        except json.JSONDecodeError as error:
            self.position = min(error.pos, len(self.text))
            raise self.fail(f"expected JSON, got an error: {error.msg}") from None
        except RecursionError:
            raise self.fail("expected a flat list of pairs, got JSON nested too deeply") from None
        except ValueError as error:
            raise self.fail(str(error)) from None
        self.skip()
        return value

    def elements(self) -> Iterator[tuple[int, Any]]:
        self.take("[")
        count = 0
        while self.peek() != "]":
            if count:
                self.take(",")
            count += 1
            _check_count(count, self.name)
            line = self.line
            yield line, self.value()
        self.take("]")

    def end(self) -> None:
        if self.position != len(self.text):
            raise self.fail(f"expected the end of the file, got {self.text[self.position : self.position + 20]!r}")


def _text_field(item: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = item.get(key, default)
    if not isinstance(value, str):
        got = "nothing" if value is None else f"{type(value).__name__}"
        raise ValueError(f"{key!r}: expected a text, got {got}")
    return value


def _object(item: object) -> Mapping[str, Any]:
    if not isinstance(item, dict):
        raise ValueError(f"expected an object for each pair, got {type(item).__name__}")
    return item


def _edinburgh_items(data: bytes | str, name: str) -> list[tuple[int, Mapping[str, Any]]]:
    walk = _Json(_decode(data, name), name)
    items = []
    for line, item in walk.elements():
        try:
            items.append((line, _object(item)))
        except ValueError as error:
            raise ValueError(f"{name}, line {line}: {error}") from None
    walk.end()
    return items


def _holds_more(items: list[tuple[int, Mapping[str, Any]]], others: list[tuple[int, Mapping[str, Any]]]) -> bool:
    """Return whether the links of `items` hold those of `others` in every pair, and more in one."""
    try:
        links = [[parse_links(_text_field(item, "sureAlign"))[0] for _, item in side] for side in (items, others)]
    except ValueError:
        return False  # Reading them pair by pair says where.
    return all(a >= b for a, b in zip(*links, strict=True)) and any(a > b for a, b in zip(*links, strict=True))


def parse_edinburgh(data: bytes | str, possible: bytes | str | None = None, *, name: str = "edinburgh") -> GoldSet:
    """Read the Edinburgh++ JSON list, and the second file in which possible links count as sure.

    Args:
        data: the file of sure links.
        possible: the file of sure and possible links of the same pairs in the same order; None if there is
            none. Which of two files is which, their links say: a browser sends them in the order of their names.

    Raises:
        ValueError: damaged JSON, missing fields, links out of range, or two files that do not fit (the line
            is named).
    """
    items = _edinburgh_items(data, name)
    wider = None if possible is None else _edinburgh_items(possible, f"{name} (possible)")
    if wider is not None and len(wider) != len(items):
        raise ValueError(f"{name}: expected as many pairs in both files, got {len(items)} and {len(wider)}")
    if wider is not None and _holds_more(items, wider):
        items, wider = wider, items
    pairs = []
    for position, (line, item) in enumerate(items):
        try:
            source, target = _text_field(item, "source"), _text_field(item, "target")
            sure, _ = parse_links(_text_field(item, "sureAlign"))
            extra = parse_links(_text_field(item, "possibleAlign", ""))[0]
            if wider is not None:
                other = wider[position][1]
                for key in ("source", "target", "id"):
                    if _text_field(other, key, "") != _text_field(item, key, ""):
                        raise ValueError(
                            f"{key!r}: expected the same pair at line {wider[position][0]} of the other file, "
                            "got another; give both files in the same order"
                        )
                both = parse_links(_text_field(other, "sureAlign"))[0]
                if not sure <= both:
                    raise ValueError(
                        f"'sureAlign': expected links that line {wider[position][0]} of the other file has too, got "
                        f"{format_links(sorted(sure - both)[:3])}; one file must hold the sure links, the other these "
                        "and the possible ones"
                    )
                extra |= both
            pairs.append(
                GoldPair(
                    _words(source),
                    _words(target),
                    sure,
                    extra,
                    id=_text_field(item, "id", str(position + 1)),
                    source_language="en",
                    target_language="en",
                )
            )
        except ValueError as error:
            raise ValueError(f"{name}, line {line}: {error}") from None
    return GoldSet(name, tuple(pairs))


_SET_KEYS = ("format", "version", "name", "licence", "notes", "pairs")
_PAIR_KEYS = ("id", "source_language", "target_language", "source", "target", "sure", "possible")


def _own_pair(item: object, position: int) -> GoldPair:
    fields = _object(item)
    unknown = sorted(set(fields) - set(_PAIR_KEYS))
    if unknown:
        raise ValueError(f"expected the keys {', '.join(_PAIR_KEYS)}, got {unknown[0][:30]!r}")
    sure, doubtful = parse_links(_text_field(fields, "sure"))
    if doubtful:
        raise ValueError("'sure': expected links i-j only, got ipj; put possible links under 'possible'")
    either, marked = parse_links(_text_field(fields, "possible", ""))
    for key in ("source", "target"):
        text = _text_field(fields, key)
        if text != " ".join(_words(text)):
            raise ValueError(f"{key!r}: expected words separated by single blanks, got other blanks in {text[:40]!r}")
    return GoldPair(
        _words(_text_field(fields, "source")),
        _words(_text_field(fields, "target")),
        sure,
        either | marked,
        id=_text_field(fields, "id", str(position + 1)),
        source_language=_text_field(fields, "source_language", ""),
        target_language=_text_field(fields, "target_language", ""),
    )


def parse_gold(data: bytes | str, *, name: str = "gold") -> GoldSet:
    """Read our own format (see the top of this module).

    Raises:
        ValueError: another format or version, damaged JSON, unknown or missing keys, links out of range (the
            line is named).

    >>> gold = parse_gold('{"format": "sinkviz-gold", "version": 1, "pairs": '
    ...                   '[{"source": "a cat", "target": "un gato", "sure": "0-0 1-1"}]}')
    >>> sorted(gold.pairs[0].sure)
    [(0, 0), (1, 1)]
    """
    walk = _Json(_decode(data, name), name)
    header: dict[str, Any] = {}
    pairs: list[GoldPair] | None = None
    walk.take("{")
    first = True
    while walk.peek() != "}":
        if not first:
            walk.take(",")
        first = False
        if walk.peek() != '"':
            raise walk.fail("expected a key in quotes")
        key = walk.value()
        if key not in _SET_KEYS:
            raise walk.fail(f"expected the keys {', '.join(_SET_KEYS)}, got {str(key)[:30]!r}")
        if key in header or (key == "pairs" and pairs is not None):
            raise walk.fail(f"expected each key once, got {key!r} twice")
        walk.take(":")
        if key != "pairs":
            header[key] = walk.value()
            continue
        pairs = []
        for line, item in walk.elements():
            try:
                pairs.append(_own_pair(item, len(pairs)))
            except ValueError as error:
                raise ValueError(f"{name}, line {line}: {error}") from None
    walk.take("}")
    walk.end()
    if header.get("format") != "sinkviz-gold":
        raise ValueError(f'{name}: expected "format": "sinkviz-gold", got {header.get("format")!r:.40}')
    if type(header.get("version")) is not int or header["version"] != 1:
        raise ValueError(
            f"{name}: expected version 1, got {header.get('version')!r:.40}; a newer file needs a newer sinkviz"
        )
    if pairs is None:
        raise ValueError(f'{name}: expected a list under "pairs", got none')
    try:
        title = _text_field(header, "name", name)
        licence = _text_field(header, "licence", "")
        notes = _text_field(header, "notes", "")
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    return GoldSet(title, tuple(pairs), licence, notes)


def dump_gold(gold: GoldSet) -> str:
    """Return a set in our own format, one pair a line.

    >>> gold = parse_pharaoh("the cat", "die Katze", "0-0 1p1")
    >>> parse_gold(dump_gold(gold)).pairs == gold.pairs
    True
    """

    def write(value: object) -> str:
        return json.dumps(value, ensure_ascii=False)

    head = {
        "format": "sinkviz-gold",
        "version": 1,
        "name": gold.name,
        "licence": gold.licence,
        "notes": gold.notes,
    }
    pairs = [
        write(
            {
                "id": pair.id,
                "source_language": pair.source_language,
                "target_language": pair.target_language,
                "source": " ".join(pair.source),
                "target": " ".join(pair.target),
                "sure": format_links(pair.sure),
                "possible": format_links(pair.possible - pair.sure),
            }
        )
        for pair in gold.pairs
    ]
    return write(head)[:-1] + ',\n "pairs": [\n  ' + ",\n  ".join(pairs) + "\n]}\n"


def pharaoh_order(files: Mapping[str, bytes]) -> list[str]:
    """Return the names of three Pharaoh files as source, target, links.

    The links are the one file in which every line is links; source and target keep the order they have.

    >>> pharaoh_order({"a.links": b"0-0 1p1", "b.en": b"the cat", "c.de": b"die Katze"})
    ['b.en', 'c.de', 'a.links']
    """
    names = list(files)

    def holds_links(name: str) -> bool:
        words = files[name].split()
        return bool(words) and all(_LINK.fullmatch(word.decode("utf-8", "replace")) for word in words)

    found = [name for name in names if holds_links(name)]
    return [name for name in names if name not in found] + found if len(found) == 1 else names


def gold_from_files(files: Mapping[str, bytes], *, index_base: int = 0) -> GoldSet:
    """Tell the format of some files by what is in them, and read them.

    One file: our own JSON, an Edinburgh++ list, or three tab-separated columns. Two: Edinburgh++ with sure
    and with possible links, in either order. Three: Pharaoh, in the order source, target, links.

    Args:
        files: file name → content, in that order.
        index_base: index of the first word; 1 for some Pharaoh sets. The other formats count from 0.

    Raises:
        ValueError: no format fits, or the file is damaged (file and line are named).
    """
    names = list(files)
    if not 1 <= len(names) <= 3:
        raise ValueError(
            f"gold: expected one file (our JSON, Edinburgh++ JSON, tab-separated), two (Edinburgh++ sure and "
            f"possible) or three (Pharaoh source, target, links), got {len(names)}"
        )
    stem = Path(names[0]).name
    if len(names) == 3:
        return parse_pharaoh(*(files[name] for name in names), name=stem, index_base=index_base)
    if index_base != 0:
        raise ValueError("index_base: only Pharaoh sets (three files) may count from 1; the other formats count from 0")
    start = files[names[0]][:1_000].decode("utf-8", "replace").lstrip("\ufeff" + _BLANK)[:1]
    if len(names) == 2:
        return parse_edinburgh(files[names[0]], files[names[1]], name=stem)
    if start == "{":
        return parse_gold(files[names[0]], name=stem)
    if start == "[":
        return parse_edinburgh(files[names[0]], name=stem)
    language = re.match(r"[a-z]{2,3}(?=\.)", stem)
    return parse_xlwa(files[names[0]], name=stem, target_language=language[0] if language else "")


def read_gold(*paths: str | Path, index_base: int = 0) -> GoldSet:
    """Read a gold set from files, or from a folder that holds one (see `gold_from_files` for what fits).

    A folder may hold one tab-separated or JSON file, or the two files of Edinburgh++, `*.sure.json` and
    `*.sure+poss.json`.

    Raises:
        ValueError: no such file, too large, no known format, damaged (file and line are named).
    """
    found = [Path(path) for path in paths]
    if len(found) == 1 and found[0].is_dir():
        inside = sorted(path for path in found[0].iterdir() if path.suffix in (".json", ".tsv"))
        if len(inside) == 2 and {p.name.split(".", 1)[-1].rsplit(".", 2)[-2] for p in inside} == {
            "sure",
            "sure+poss",
        }:
            inside.sort(key=lambda path: "poss" in path.name)  # The set is named after the file of sure links.
        elif len(inside) != 1:
            raise ValueError(
                f"{found[0]}: expected one gold file or the two of Edinburgh++ in the folder, got "
                f"{', '.join(path.name for path in inside) or 'none'}; name the files"
            )
        found = inside
    files: dict[str, bytes] = {}
    for path in found:
        try:
            if path.stat().st_size > MAX_BYTES:
                raise ValueError(
                    f"{path}: expected at most {MAX_BYTES} bytes, got {path.stat().st_size}; split the file"
                )
            if str(path) in files:
                raise ValueError(f"{path}: expected different files, got it twice")
            files[str(path)] = path.read_bytes()
        except OSError as error:
            raise ValueError(f"{path}: expected a readable file: {error.strerror}") from None
    return gold_from_files(files, index_base=index_base)


def combine(name: str, sets: Sequence[GoldSet]) -> GoldSet:
    """Return one set of all pairs of some sets."""
    licences = dict.fromkeys(gold.licence for gold in sets if gold.licence)
    return GoldSet(name, tuple(pair for gold in sets for pair in gold.pairs), "; ".join(licences))


def mini_gold() -> GoldSet:
    """Return the set that comes with sinkviz: short pairs in eight languages, linked by hand, CC0.

    >>> len(mini_gold().languages)
    8
    """
    from sinkviz.resources import asset_path

    return parse_gold(asset_path("mini-gold.json").read_bytes(), name="mini-gold.json")
