"""Pieces of a tokenizer as atoms of the text: every span a slice, every character of a word shown once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sinkviz.text import Span, containing, join_words, sentence_spans, trim, validate_text, word_spans

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_SPACE_PIECES = ("▁", "Ġ")  # what SentencePiece and byte-level vocabularies write for a blank
_SHOWN = 5  # examples in a note; the count is always stated


@dataclass(frozen=True)
class Tokens:
    """A text cut into the pieces that a model reads, and the atoms of the text that they stand for.

    Attributes:
        text: the text.
        ids: vocabulary ids of the pieces, special tokens not included.
        pieces: for each atom the positions in `ids` that make it up: one, or several where a character that cannot
            be split became several pieces.
        spans: for each atom [start, end) in the text; in reading order, without overlap, and together they cover
            every visible character of every word that carries an atom.
        word_of, sentence_of: for each atom an index into `word_spans`, `sentence_spans`.
        word_spans, sentence_spans: the words and sentences that carry atoms.
        missing: words without any token.
        notes: what got no token, or a token that knows nothing of it.
    """

    text: str
    ids: list[int]
    pieces: list[list[int]]
    spans: list[Span]
    word_of: list[int]
    sentence_of: list[int]
    word_spans: list[Span]
    sentence_spans: list[Span]
    missing: list[Span]
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.spans)


def read_text(text: str | Sequence[str], *, name: str = "text") -> tuple[str, list[Span]]:
    """Return a text and its words: those of Unicode for a string, the given ones for a list of words.

    Raises:
        ValueError: what `validate_text` or `join_words` refuses.

    >>> read_text(["New York", "sleeps"])
    ('New York sleeps', [(0, 8), (9, 15)])
    """
    if isinstance(text, str):
        return validate_text(text, name=name), word_spans(text)
    if isinstance(text, Sequence) and not isinstance(text, bytes | bytearray):
        return join_words(text, name=name)
    return validate_text(text, name=name), []


def _examples(text: str, spans: Sequence[Span]) -> str:
    shown = ", ".join(f"“{text[start:end]}”" for start, end in spans[:_SHOWN])
    more = len(spans) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _atoms(text: str, offsets: Sequence[Span], blanks: Sequence[bool]) -> tuple[list[Span], list[list[int]]]:
    """Join pieces that share characters, and drop those that show nothing."""
    trimmed = [trim(text, start, end) for start, end in offsets]

    def shares(index: int, other: int) -> bool:
        if not 0 <= other < len(trimmed):
            return False
        return trimmed[index][0] < trimmed[other][1] and trimmed[other][0] < trimmed[index][1]

    spans: list[Span] = []
    pieces: list[list[int]] = []
    for index, (start, end) in enumerate(trimmed):
        if start >= end:
            continue
        # The mark of a blank, reported at the character that follows it: no piece of the text.
        if blanks[index] and (shares(index, index - 1) or shares(index, index + 1)):
            continue
        if spans and start < spans[-1][1]:
            spans[-1] = (min(spans[-1][0], start), max(spans[-1][1], end))
            pieces[-1].append(index)
        else:
            spans.append((start, end))
            pieces.append([index])
    return spans, pieces


def _leading_space(text: str, start: int, end: int) -> int:
    gap = text[start:end]
    return len(gap) - len(gap.lstrip())


def group_pieces(
    text: str, words: Sequence[Span], offsets: Sequence[Span], blanks: Sequence[bool]
) -> tuple[list[Span], list[list[int]], list[int], list[Span], list[Span]]:
    """Return atoms that tile the words of a text.

    Characters that the tokenizer drops (combining marks, joiners) go to the atom before them in their word, or to the
    first one. An atom that reaches over several words belongs to the first; a word that it covers to the end joins
    that word, so that each character is shown once.

    Args:
        text: the text.
        words: its words, in reading order.
        offsets: [start, end) of each piece, in code points.
        blanks: whether a piece is the mark of a blank only.

    Returns:
        spans and pieces of the atoms, word of each atom, the words that carry atoms, and the words without any.
    """
    spans, pieces = _atoms(text, offsets, blanks)
    word_of = [-1] * len(spans)
    owners: list[Span] = []
    missing: list[Span] = []
    first = 0
    for start, end in words:
        while first < len(spans) and spans[first][1] <= start:
            first += 1
        last = first
        while last < len(spans) and spans[last][0] < end:
            last += 1
        if first == last:
            missing.append((start, end))
            continue
        # White space inside a given word ("New York") belongs to no atom; anything else that is skipped does.
        begin = start + _leading_space(text, start, spans[first][0])
        spans[first] = (min(spans[first][0], begin), spans[first][1])
        for index in range(first, last):
            reached = spans[index][1]
            until = spans[index + 1][0] if index + 1 < last else end
            spans[index] = (spans[index][0], reached + len(text[reached:until].rstrip()))
        own = [index for index in range(first, last) if word_of[index] < 0]
        if own:
            for index in own:
                word_of[index] = len(owners)
            owners.append((start, end))
        else:
            owners[-1] = (owners[-1][0], end)
    kept = [index for index in range(len(spans)) if word_of[index] >= 0]
    return (
        [spans[index] for index in kept],
        [pieces[index] for index in kept],
        [word_of[index] for index in kept],
        owners,
        missing,
    )


def tokenise(text: str | Sequence[str], tokenizer: PreTrainedTokenizerBase, *, name: str = "text") -> Tokens:
    """Cut a text, or a list of words as it stands, into atoms.

    Args:
        text: the text or its words.
        tokenizer: a fast tokenizer of transformers.
        name: how messages call the text.

    Raises:
        ValueError: a text that cannot be read, or none of whose characters the tokenizer knows.
    """
    whole, words = read_text(text, name=name)
    coded = tokenizer(
        whole,
        add_special_tokens=False,
        split_special_tokens=True,  # "[SEP]" in a pasted text is text
        return_offsets_mapping=True,
        return_attention_mask=False,
        verbose=False,
    )
    ids = [int(index) for index in coded["input_ids"]]
    blanks = [piece in _SPACE_PIECES for piece in tokenizer.convert_ids_to_tokens(ids)]
    offsets = [(int(start), int(end)) for start, end in coded["offset_mapping"]]
    spans, pieces, word_of, owners, missing = group_pieces(whole, words, offsets, blanks)
    if not spans:
        raise ValueError(
            f"{name}: expected characters that the model can read, got {whole!r:.60}, for which it has no token; "
            "choose another model or another text"
        )
    sentences = sentence_spans(whole)
    first_atom = dict(zip(reversed(word_of), reversed(spans), strict=True))
    of_word = [containing(sentences, first_atom[word][0]) for word in range(len(owners))]
    used = sorted(set(of_word))
    number = {sentence: index for index, sentence in enumerate(used)}
    notes = []
    if missing:
        notes.append(
            f"{len(missing)} of {len(owners) + len(missing)} words have no token in this model and take no part: "
            f"{_examples(whole, missing)}."
        )
    meaningless = set(tokenizer.all_special_ids)  # the unknown token, or "<s>" where somebody wrote that
    unknown = [span for span, parts in zip(spans, pieces, strict=True) if ids[parts[0]] in meaningless]
    if unknown:
        notes.append(
            f"{len(unknown)} of {len(spans)} tokens are unknown to this model, which sees the same mark for "
            f"each of them: {_examples(whole, unknown)}."
        )
    return Tokens(
        text=whole,
        ids=ids,
        pieces=pieces,
        spans=spans,
        word_of=word_of,
        sentence_of=[number[of_word[word]] for word in word_of],
        word_spans=owners,
        sentence_spans=[sentences[index] for index in used],
        missing=missing,
        notes=tuple(notes),
    )
