"""Cosines of the words of many pairs of texts, embedded together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sinkviz.alignment.gold import GoldSet

if TYPE_CHECKING:
    from sinkviz.embedding.encode import Reading

CHUNK_PAIRS = 250
"""Pairs embedded at a time: bounds the vectors in memory, however large the set is."""


@dataclass(frozen=True, eq=False)
class WordCosines:
    """Cosines of the words of the pairs of a set.

    Attributes:
        model: name of the model.
        layer: its default layer, or the one that was asked for.
        cosines: for each layer one matrix (source words, target words) for each pair, float64. A word for which the
            model has no token has cosine −1 with every word.
        notes: what a reader must know, in plain sentences.
    """

    model: str
    layer: int
    cosines: dict[int, list[NDArray[np.float64]]]
    notes: tuple[str, ...] = ()


def word_vectors(
    reading: Reading, starts: Sequence[int], layer: int, *, centre: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return unit vectors of words, means over their tokens, and which words have a token.

    Args:
        reading: hidden states of a text.
        starts: where each word starts in it.
        layer: hidden layer.
        centre: subtract the mean over the text's tokens first.

    Returns:
        Shape (words, d), length 1 (0 for a word without a token), and (words,).
    """
    from sinkviz.embedding.encode import atom_means

    tokens = reading.tokens
    atoms = atom_means(tokens, reading.states[layer]).astype(np.float64)
    if centre and len(atoms) > 1:
        atoms = atoms - atoms.mean(axis=0)
    place = {start: index for index, start in enumerate(starts)}
    word = np.array([place[tokens.word_spans[owner][0]] for owner in tokens.word_of])
    points = np.zeros((len(starts), atoms.shape[1]))
    np.add.at(points, word, atoms)
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    known = np.zeros(len(starts), dtype=bool)
    known[word] = True
    return np.divide(points, lengths, out=np.zeros_like(points), where=lengths > 0), known


def default_model(gold: GoldSet) -> str:
    """Return the model for a set: the multilingual one if the set names a language other than English.

    >>> from sinkviz.alignment.gold import parse_xlwa
    >>> default_model(parse_xlwa("a cat\\tun gato\\t0-0 1-1", target_language="es"))
    'multilingual-e5-small'
    """
    from sinkviz.embedding import DEFAULT_MODEL, MULTILINGUAL_MODEL

    named = {code for pair in gold.pairs for code in (pair.source_language, pair.target_language)}
    return MULTILINGUAL_MODEL if named - {"", "en"} else DEFAULT_MODEL


def word_cosines(
    gold: GoldSet,
    *,
    model: str | None = None,
    layer: int | None = None,
    all_layers: bool = False,
    centre: bool = False,
    device: str = "auto",
    progress: Callable[[float, str], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> WordCosines:
    """Embed every pair of a set and return the cosines of its words.

    Args:
        model: name of the model; `default_model` if None.
        layer: hidden layer, the model's default one if None.
        all_layers: return the cosines of every layer, not of this one only.
        centre: subtract the mean over each text's tokens.
        device: where to embed.
        progress, cancelled: as in `sinkviz.alignment.evaluation.evaluate`.

    Raises:
        ValueError: a model or layer that does not exist, a text that cannot be read (its pair is named).
        EvaluationCancelledError: it was stopped.
    """
    from sinkviz.alignment.evaluation import EvaluationCancelledError
    from sinkviz.embedding import load_model
    from sinkviz.embedding.encode import read
    from sinkviz.text import join_words

    def report(share: float, line: str) -> None:
        if cancelled is not None and cancelled():
            raise EvaluationCancelledError("the evaluation was stopped")
        if progress is not None:
            progress(share, line)

    loaded = load_model(
        default_model(gold) if model is None else model, device=device, progress=lambda _, line: report(0.0, line)
    )
    own = loaded.info.layer(layer)
    wanted = list(range(loaded.info.layers + 1)) if all_layers else [own]
    result: dict[int, list[NDArray[np.float64]]] = {number: [] for number in wanted}
    missing = 0
    for first in range(0, len(gold), CHUNK_PAIRS):
        pairs = gold.pairs[first : first + CHUNK_PAIRS]
        texts: list[tuple[str, ...]] = []
        starts: list[list[int]] = []
        for pair in pairs:
            for side, words in (("source", pair.source), ("target", pair.target)):
                try:
                    starts.append([start for start, _ in join_words(words, name=side)[1]])
                except ValueError as error:
                    raise ValueError(f"{gold.name}, pair {pair.id!r}: {error}") from None
                texts.append(words)

        def chunk(share: float, line: str, first: int = first, size: int = len(pairs)) -> None:
            report((first + share * size) / len(gold), f"Embedding pairs {first + 1} to {first + size} of {len(gold)}")

        readings = read(loaded, texts, wanted, progress=chunk, name="text")
        for number in wanted:
            for k in range(len(pairs)):
                source, known = word_vectors(readings[2 * k], starts[2 * k], number, centre=centre)
                target, other = word_vectors(readings[2 * k + 1], starts[2 * k + 1], number, centre=centre)
                cosine = np.clip(source @ target.T, -1.0, 1.0)
                cosine[~known, :] = -1.0
                cosine[:, ~other] = -1.0
                result[number].append(cosine)
                if number == wanted[0]:
                    missing += int((~known).sum() + (~other).sum())
    notes = list(loaded.notes)
    if missing:
        notes.append(f"{missing} words have no token in this model and are linked to nothing.")
    return WordCosines(loaded.info.name, own, result, tuple(notes))
