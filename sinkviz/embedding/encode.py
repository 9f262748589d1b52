"""Texts to measures: one forward pass, any layer, any unit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sinkviz.embedding.loader import LoadedModel, Progress, load_model
from sinkviz.embedding.registry import DEFAULT_MODEL
from sinkviz.embedding.tokens import Tokens, tokenise
from sinkviz.embedding.windows import most_central, window_starts
from sinkviz.measure import UNITS, Measure, Origin, Unit

if TYPE_CHECKING:
    import torch

Text = str | Sequence[str]
Points = NDArray[np.float32]

_MIN_WINDOW = 8
_CPU_TOKENS = 2048  # tokens in one forward pass: larger batches gain nothing on a CPU and cost memory
_GPU_TOKENS = 65536


@dataclass(frozen=True)
class Reading:
    """Hidden states of the pieces of one text.

    Attributes:
        tokens: the pieces and the atoms that they make up.
        states: for each asked layer the vectors of all pieces, shape (pieces, d), float32.
        windows: number of windows that the text was read in.
    """

    tokens: Tokens
    states: dict[int, Points]
    windows: int


def _special_ids(model: LoadedModel) -> tuple[list[int], list[int]]:
    """Return the special tokens that the model expects before and after a text."""
    coded = model.tokenizer("a", return_special_tokens_mask=True, verbose=False)
    mask = [int(flag) for flag in coded["special_tokens_mask"]]
    ids = [int(index) for index in coded["input_ids"]]
    first = mask.index(0)
    last = len(mask) - mask[::-1].index(0)
    return ids[:first], ids[last:]


def _window_size(model: LoadedModel, window: int | None, special: int) -> int:
    limit = model.info.positions
    if window is None:
        return limit - special
    if isinstance(window, bool) or not isinstance(window, int) or not _MIN_WINDOW <= window <= limit:
        raise ValueError(
            f"window: expected a whole number of positions from {_MIN_WINDOW} to {limit} (the limit of "
            f"{model.info.name}), or None for the limit, got {window!r}"
        )
    return window - special


def _forward(model: LoadedModel, batch: list[list[int]], layers: Sequence[int]) -> dict[int, torch.Tensor]:
    """Return hidden states of a batch of windows, shape (batch, longest, d) for each layer."""
    import torch

    longest = max(map(len, batch))
    padding = model.tokenizer.pad_token_id or 0
    ids = torch.full((len(batch), longest), padding, dtype=torch.long)
    mask = torch.zeros((len(batch), longest), dtype=torch.long)
    for row, window in enumerate(batch):
        ids[row, : len(window)] = torch.tensor(window)
        mask[row, : len(window)] = 1
    inputs = {"input_ids": ids.to(model.device), "attention_mask": mask.to(model.device)}
    with torch.inference_mode():
        short = model.up_to(layers[0]) if len(layers) == 1 else None
        if short is not None:
            return {layers[0]: short(**inputs).last_hidden_state}
        states = model.encoder(**inputs, output_hidden_states=True).hidden_states
        return {layer: states[layer] for layer in layers}


def read(
    model: LoadedModel,
    texts: Sequence[Text],
    layers: Sequence[int],
    *,
    window: int | None = None,
    progress: Progress | None = None,
    name: str = "text",
) -> list[Reading]:
    """Tokenise texts and run the model over them, windows of similar length together.

    Raises:
        ValueError: a text that cannot be read, a window outside the model's limits.
    """
    with model.tokenizer_lock:
        before, after = _special_ids(model)
        size = _window_size(model, window, len(before) + len(after))
        several = len(texts) > 1
        tokenised = [
            tokenise(text, model.tokenizer, name=f"{name} {index + 1}" if several else name)
            for index, text in enumerate(texts)
        ]
    jobs: list[tuple[int, int, list[int]]] = []
    for index, tokens in enumerate(tokenised):
        jobs += [
            (index, number, before + tokens.ids[start : start + size] + after)
            for number, start in enumerate(window_starts(len(tokens.ids), size))
        ]
    jobs.sort(key=lambda job: -len(job[2]))
    wanted = sorted(set(layers))
    chosen = [most_central(len(tokens.ids), size) for tokens in tokenised]
    starts = [np.asarray(window_starts(len(tokens.ids), size)) for tokens in tokenised]
    states = [
        {layer: np.empty((len(tokens.ids), model.info.dimension), dtype=np.float32) for layer in wanted}
        for tokens in tokenised
    ]
    budget = _GPU_TOKENS if model.device.startswith("cuda") else _CPU_TOKENS
    total = sum(len(job[2]) for job in jobs)
    done = 0
    position = 0
    while position < len(jobs):
        count = max(1, budget // len(jobs[position][2]))
        batch = jobs[position : position + count]
        output = _forward(model, [ids for _, _, ids in batch], wanted)
        for layer, tensor in output.items():
            array = tensor.float().cpu().numpy()
            for row, (index, number, _) in enumerate(batch):
                pieces = np.flatnonzero(chosen[index] == number)
                states[index][layer][pieces] = array[row, pieces - starts[index][number] + len(before)]
        position += count
        done += sum(len(ids) for _, _, ids in batch)
        if progress:
            progress(done / total, f"Embedding: {done:,} of {total:,} tokens")
    return [
        Reading(tokens=tokens, states=state, windows=len(start))
        for tokens, state, start in zip(tokenised, states, starts, strict=True)
    ]


def atom_means(tokens: Tokens, pieces: NDArray[np.floating]) -> Points:
    """Return the vectors of atoms: means of their pieces' vectors, shape (atoms, …), float32."""
    if all(len(parts) == 1 for parts in tokens.pieces):
        return np.ascontiguousarray(pieces[[parts[0] for parts in tokens.pieces]], dtype=np.float32)
    means = [pieces[parts].mean(axis=0, dtype=np.float64) for parts in tokens.pieces]
    return np.asarray(np.stack(means), dtype=np.float32)


def _centred(points: Points) -> Points:
    exact = points.astype(np.float64)
    return np.asarray(exact - exact.mean(axis=0), dtype=np.float32)


def _unit_of(unit: str) -> Unit:
    if unit not in UNITS:
        raise ValueError(f"unit: expected one of {', '.join(UNITS)}, got {unit!r}")
    return unit


def _measure(
    reading: Reading,
    layer: int,
    model: LoadedModel,
    *,
    unit: Unit,
    weights: Literal["uniform"] | ArrayLike,
    centre: bool,
) -> Measure:
    tokens = reading.tokens
    points = atom_means(tokens, reading.states[layer])
    notes = [*model.notes]
    if reading.windows > 1:
        notes.append(
            f"The text has more tokens than {model.info.name} reads at once; it was read in {reading.windows} "
            "overlapping windows, each token in the one where it is most central."
        )
    notes += tokens.notes
    atoms = {"token": len(tokens), "word": len(tokens.word_spans), "sentence": len(tokens.sentence_spans)}[unit]
    moved = centre and atoms > 1
    if centre and not moved:
        notes.append(f"Not centred: the text is a single {unit}, and subtracting the mean would leave nothing.")
    if moved:
        points = _centred(points)
    measure = Measure(
        points=points,
        weights=np.ones(len(tokens)),
        text=tokens.text,
        spans=tuple(tokens.spans),
        word_of=np.asarray(tokens.word_of),
        sentence_of=np.asarray(tokens.sentence_of),
        word_spans=tuple(tokens.word_spans),
        sentence_spans=tuple(tokens.sentence_spans),
        unit="token",
        origin=Origin(
            model=model.info.name,
            layer=layer,
            device=model.device,
            windows=reading.windows,
            centred=moved,
            notes=tuple(notes),
        ),
    ).coarsen(unit)
    if isinstance(weights, str):
        if weights != "uniform":
            raise ValueError(f'weights: expected "uniform" or one number for each {unit}, got {weights!r}')
        return measure.with_weights(np.ones(len(measure)))
    return measure.with_weights(weights)


def embed(
    text: Text,
    *,
    model: str = DEFAULT_MODEL,
    layer: int | None = None,
    unit: Unit = "token",
    weights: Literal["uniform"] | ArrayLike = "uniform",
    centre: bool = False,
    device: str = "auto",
    window: int | None = None,
    allow_external: bool | None = None,
    progress: Progress | None = None,
) -> Measure:
    """Turn a text into the measure μ = Σ a_i δ_{x_i} of its contextual embeddings.

    Args:
        text: the text, or its words as they stand (then the text is the words joined by blanks).
        model: a known model (`sinkviz.embedding.known_models`), or a hub name or folder where that is allowed.
        layer: hidden layer to read, 0 = input embeddings; None = the model's default.
        unit: what an atom is; the vector of a word or sentence is the mean over its tokens.
        weights: "uniform" over the atoms of `unit`, or one number ≥ 0 for each of them (normalised).
        centre: subtract the mean over the text's tokens from every vector.
        device: "auto" takes CUDA, then MPS, then the CPU.
        window: positions read at once, special tokens included; None = the model's limit.
        allow_external: load models beyond the known ones; None asks the variable SINKVIZ_ALLOW_MODELS.
        progress: called with the share done and a plain line.

    Returns:
        The measure: points (n, d) float32 in the model's units, weights (n,) float64 with sum 1, every label a slice
        of the text. `origin` states model, layer, device, number of windows, and notes.

    Raises:
        ValueError: a text that cannot be read, an unknown model, layer, unit, device or window, weights that do not
            fit, or weights of the model that are missing or damaged.

    Example:
        >>> measure = embed("Tiny fish swim.", unit="word")
        >>> measure.labels, measure.points.shape, measure.origin.layer
        (['Tiny', 'fish', 'swim', '.'], (4, 384), 3)
    """
    chosen = _unit_of(unit)
    loaded = load_model(model, device=device, allow_external=allow_external, progress=progress)
    number = loaded.info.layer(layer)
    (reading,) = read(loaded, [text], [number], window=window, progress=progress)
    return _measure(reading, number, loaded, unit=chosen, weights=weights, centre=centre)


def embed_batch(
    texts: Sequence[Text],
    *,
    model: str = DEFAULT_MODEL,
    layer: int | None = None,
    unit: Unit = "token",
    centre: bool = False,
    device: str = "auto",
    window: int | None = None,
    allow_external: bool | None = None,
    progress: Progress | None = None,
) -> list[Measure]:
    """Turn many texts into measures, with texts of similar length in one forward pass.

    The same as `embed` for each text, up to rounding; weights are uniform.

    Args:
        texts: texts or lists of words.
        model, layer, unit, centre, device, window, allow_external, progress: as in `embed`.

    Raises:
        ValueError: as in `embed`; the message names the text by its number, from 1.

    Example:
        >>> [len(measure) for measure in embed_batch(["One fish.", ["two", "fish"]], unit="word")]
        [3, 2]
    """
    chosen = _unit_of(unit)
    if isinstance(texts, str):
        raise ValueError("texts: expected a list of texts, got a string; use embed for one text")
    if not texts:
        return []
    loaded = load_model(model, device=device, allow_external=allow_external, progress=progress)
    number = loaded.info.layer(layer)
    readings = read(loaded, texts, [number], window=window, progress=progress)
    return [_measure(reading, number, loaded, unit=chosen, weights="uniform", centre=centre) for reading in readings]


def hidden_layers(
    text: Text,
    *,
    layers: Sequence[int] | None = None,
    model: str = DEFAULT_MODEL,
    unit: Unit = "token",
    weights: Literal["uniform"] | ArrayLike = "uniform",
    centre: bool = False,
    device: str = "auto",
    window: int | None = None,
    allow_external: bool | None = None,
    progress: Progress | None = None,
) -> list[Measure]:
    """Return the measures of several hidden layers from one forward pass.

    Args:
        layers: which ones, in the order of the result; None = all, from 0 (input embeddings) to the last.
        text, model, unit, weights, centre, device, window, allow_external, progress: as in `embed`.

    Raises:
        ValueError: as in `embed`.

    Example:
        >>> [measure.origin.layer for measure in hidden_layers("One fish.", layers=[0, 6])]
        [0, 6]
    """
    chosen = _unit_of(unit)
    loaded = load_model(model, device=device, allow_external=allow_external, progress=progress)
    numbers = range(loaded.info.layers + 1) if layers is None else [loaded.info.layer(layer) for layer in layers]
    if not numbers:
        raise ValueError("layers: expected at least one layer, got an empty list")
    (reading,) = read(loaded, [text], numbers, window=window, progress=progress)
    return [_measure(reading, number, loaded, unit=chosen, weights=weights, centre=centre) for number in numbers]


@dataclass(frozen=True, eq=False)
class Projections:
    """Queries and keys that the embedding model itself computes in one of its layers.

    Attributes:
        measure: the tokens, at the hidden layer that the projections are taken from (layer − 1).
        query, key: shape (heads, n, d / heads), float32, biases included. The model's own score of i for j is
            ⟨query_i, key_j⟩ / sqrt(d / heads).
        layer: transformer layer, from 1.
        heads: which heads, in the order of the first axis.
    """

    measure: Measure
    query: Points
    key: Points
    layer: int
    heads: tuple[int, ...]

    @property
    def scale(self) -> float:
        """What the model multiplies ⟨query, key⟩ by: 1 / sqrt(dimension of a head)."""
        return 1.0 / math.sqrt(self.query.shape[-1])


def attention_projections(
    text: Text,
    *,
    layer: int = 1,
    head: int | None = None,
    model: str = DEFAULT_MODEL,
    device: str = "auto",
    window: int | None = None,
    allow_external: bool | None = None,
    progress: Progress | None = None,
) -> Projections:
    """Return queries and keys as one layer of the embedding model computes them: W_Q h + b_Q and W_K h + b_K.

    Here h is hidden state `layer` − 1. For two texts, the queries of one and the keys of the other score pairs with
    the model's own weights.

    Args:
        layer: transformer layer, 1 to the number of layers.
        head: one head, from 0; None = all.
        text, model, device, window, allow_external, progress: as in `embed`.

    Raises:
        ValueError: as in `embed`; a layer or head that does not exist; a model that is not of the BERT family.

    Source: Vaswani et al. 2017, arXiv 1706.03762, section 3.2; Devlin et al. 2019, arXiv 1810.04805.

    Example:
        >>> attention_projections("One fish.", layer=2, head=0).query.shape
        (1, 3, 32)
    """
    loaded = load_model(model, device=device, allow_external=allow_external, progress=progress)
    info = loaded.info
    if not loaded.layered:
        raise ValueError(
            f"model: expected one of the BERT family, whose queries and keys can be read, got {info.name} "
            f"({type(loaded.encoder).__name__})"
        )
    if isinstance(layer, bool) or not isinstance(layer, int) or not 1 <= layer <= info.layers:
        raise ValueError(f"layer: expected a whole number from 1 to {info.layers}, got {layer!r}")
    if head is not None and (isinstance(head, bool) or not isinstance(head, int) or not 0 <= head < info.heads):
        raise ValueError(f"head: expected a whole number from 0 to {info.heads - 1}, or None for all, got {head!r}")
    import torch

    (reading,) = read(loaded, [text], [layer - 1], window=window, progress=progress)
    heads = tuple(range(info.heads)) if head is None else (head,)
    attention = loaded.encoder.encoder.layer[layer - 1].attention.self
    states = torch.from_numpy(reading.states[layer - 1]).to(loaded.device)
    sides = []
    with torch.inference_mode():
        for linear in (attention.query, attention.key):
            values = linear(states).float().cpu().numpy()
            by_atom = atom_means(reading.tokens, values).reshape(len(reading.tokens), info.heads, -1)
            sides.append(np.ascontiguousarray(by_atom.transpose(1, 0, 2)[list(heads)]))
    measure = _measure(reading, layer - 1, loaded, unit="token", weights="uniform", centre=False)
    return Projections(measure=measure, query=sides[0], key=sides[1], layer=layer, heads=heads)
