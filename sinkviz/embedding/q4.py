"""Reader of the file e5-small-q4.bin: all weights of multilingual-e5-small in blocks of 4 bits.

The file comes from outside, so every length and offset is checked before it is used: a truncated, damaged or foreign
file ends in a clear error, never in a wrong model.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAGIC = b"E5S1"
BLOCK = 32  # weights in a block
_BLOCK_BYTES = 2 + BLOCK // 2  # a half-precision scale, then two weights in each byte
_PLAIN, _Q4 = 0, 1
_MOST_PIECES = 2_000_000
_MOST_LAYERS = 200


@dataclass(frozen=True)
class Shape:
    """Sizes of the model: `vocabulary` rows of the embedding matrix, of which `pieces` have a token."""

    hidden: int
    layers: int
    heads: int
    feed_forward: int
    vocabulary: int
    positions: int
    types: int
    epsilon: float


@dataclass(frozen=True)
class Q4File:
    """A parsed file: sizes, vocabulary, and where the tensors lie.

    Attributes:
        shape: sizes of the model.
        pieces, scores: the vocabulary of the Unigram tokenizer with its log probabilities.
        begin, end, padding, unknown: ids of the special pieces.
    """

    shape: Shape
    pieces: list[str]
    scores: list[float]
    begin: int
    end: int
    padding: int
    unknown: int
    _tensors: dict[str, tuple[int, int, int]]  # kind, count, offset
    _data: memoryview

    def tensors(self) -> Iterator[tuple[str, NDArray[np.float32]]]:
        """Yield the weights by their name in transformers' BertModel, as float32 of the right shape."""
        for ours, theirs, size in _names(self.shape):
            kind, count, offset = self._tensors[ours]
            values = (
                _dequantise(self._data, offset, count)
                if kind == _Q4
                else np.frombuffer(self._data, dtype="<f4", count=count, offset=offset).astype(np.float32)
            )
            if not np.isfinite(values).all():
                raise ValueError(f"weights: expected finite numbers in {ours}, got others; the file is damaged")
            yield theirs, values.reshape(size)


class _Cursor:
    """Reads values one after the other and refuses to run over the end."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.position = 0

    def skip(self, count: int, what: str) -> int:
        """Step over `count` bytes and return where they start."""
        start = self.position
        if count < 0 or start + count > len(self.data):
            raise ValueError(
                f"weights: expected {count:,} bytes of {what} at {start:,}, got a file of {len(self.data):,} bytes; "
                "it is truncated or no e5-small-q4.bin"
            )
        self.position = start + count
        return start

    def read(self, layout: str, what: str) -> tuple[Any, ...]:
        """Read values of a struct layout, little-endian."""
        return struct.unpack_from(f"<{layout}", self.data, self.skip(struct.calcsize(f"<{layout}"), what))


def _expect(condition: bool, what: str, got: object) -> None:
    if not condition:
        raise ValueError(f"weights: expected {what}, got {got!r:.80}; the file is damaged or no e5-small-q4.bin")


def parse(data: bytes | memoryview) -> Q4File:
    """Read the header, the vocabulary and the directory of tensors.

    Args:
        data: the whole file.

    Raises:
        ValueError: what is read does not fit the format, or points outside the file.
    """
    view = memoryview(data)
    cursor = _Cursor(view)
    magic = bytes(view[cursor.skip(8, "magic") :][:4])
    _expect(magic == MAGIC, f"a file that starts with {MAGIC!r}", magic)
    hidden, layers, heads, feed_forward, vocabulary, positions, types = cursor.read("7i", "sizes")
    (epsilon,) = cursor.read("f", "layer-norm epsilon")
    (block,) = cursor.read("i", "block size")
    sizes = (hidden, layers, heads, feed_forward, vocabulary, positions, types)
    _expect(min(sizes) > 0, "positive sizes", sizes)
    _expect(layers <= _MOST_LAYERS, f"at most {_MOST_LAYERS} layers", layers)
    _expect(hidden % heads == 0, f"a width that {heads} heads divide", hidden)
    _expect(0 < epsilon < 1, "a layer-norm epsilon between 0 and 1", epsilon)
    _expect(block == BLOCK, f"blocks of {BLOCK} weights", block)
    count, begin, end, padding, unknown = cursor.read("5i", "vocabulary sizes")
    _expect(0 < count <= min(vocabulary, _MOST_PIECES), f"1 to {vocabulary} pieces", count)
    specials = (begin, end, padding, unknown)
    _expect(
        all(0 <= special < count for special in specials) and len(set(specials)) == 4,
        f"four special pieces among {count}",
        specials,
    )
    (blob_bytes,) = cursor.read("Q", "length of the pieces")
    start = cursor.skip(4 * (count + 1), "offsets of the pieces")
    offsets = np.frombuffer(view, dtype="<u4", count=count + 1, offset=start).astype(np.int64)
    start = cursor.skip(4 * count, "scores of the pieces")
    scores = np.frombuffer(view, dtype="<f4", count=count, offset=start)
    _expect(bool(np.isfinite(scores).all()), "finite scores", "others")
    start = cursor.skip(blob_bytes, "pieces")
    _expect(
        offsets[0] == 0 and offsets[-1] == blob_bytes and bool((np.diff(offsets) >= 0).all()),
        f"offsets that rise from 0 to {blob_bytes}",
        (int(offsets[0]), int(offsets[-1])),
    )
    blob = bytes(view[start : start + blob_bytes])
    try:
        bounds = offsets.tolist()
        pieces = [blob[bounds[k] : bounds[k + 1]].decode("utf-8") for k in range(count)]
    except UnicodeDecodeError as error:
        raise ValueError(f"weights: expected pieces in UTF-8, got {error}; the file is damaged") from error
    _expect(len(set(pieces)) == count, "pieces that differ", "some twice")
    _, map_bytes = cursor.read("iI", "sizes of the normalisation map")
    cursor.skip(map_bytes, "the normalisation map")  # the same map is part of NFKC
    shape = Shape(hidden, layers, heads, feed_forward, vocabulary, positions, types, float(epsilon))
    return Q4File(
        shape=shape,
        pieces=pieces,
        scores=scores.astype(float).tolist(),
        begin=begin,
        end=end,
        padding=padding,
        unknown=unknown,
        _tensors=_directory(cursor, shape),
        _data=view,
    )


def _directory(cursor: _Cursor, shape: Shape) -> dict[str, tuple[int, int, int]]:
    """Read the directory of tensors and check it against what a model of these sizes must have."""
    expected = {ours: int(np.prod(size)) for ours, _, size in _names(shape)}
    (number,) = cursor.read("i", "number of tensors")
    _expect(number == len(expected), f"{len(expected)} tensors", number)
    found: dict[str, tuple[int, int, int]] = {}
    for _ in range(number):
        (length,) = cursor.read("H", "length of a name")
        raw = bytes(cursor.data[cursor.skip(length, "a name") :][:length])
        name = raw.decode("ascii", "backslashreplace")
        kind, count, offset, size = cursor.read("BIQQ", f"the entry of {name}")
        _expect(name in expected and name not in found, "each tensor of the model once", name)
        _expect(count == expected[name], f"{expected[name]} numbers in {name}", count)
        _expect(kind in (_PLAIN, _Q4), f"numbers of kind 0 or 1 in {name}", kind)
        _expect(kind == _PLAIN or count % BLOCK == 0, f"whole blocks in {name}", count)
        needed = 4 * count if kind == _PLAIN else count // BLOCK * _BLOCK_BYTES
        _expect(size == needed, f"{needed} bytes for {name}", size)
        _expect(
            offset + size <= len(cursor.data),
            f"{name} inside a file of {len(cursor.data)} bytes",
            (offset, size),
        )
        found[name] = (kind, count, offset)
    return found


def _dequantise(data: memoryview, offset: int, count: int) -> NDArray[np.float32]:
    """Return `count` weights: value = (nibble − 8) · scale of its block, low nibbles first."""
    blocks = count // BLOCK
    raw = np.frombuffer(data, dtype=np.uint8, count=blocks * _BLOCK_BYTES, offset=offset).reshape(blocks, -1)
    scale = raw[:, :2].copy().view("<f2").astype(np.float32)
    packed = raw[:, 2:]
    values = np.empty((blocks, BLOCK), dtype=np.float32)
    values[:, : BLOCK // 2] = (packed & 15).astype(np.int8) - 8
    values[:, BLOCK // 2 :] = (packed >> 4).astype(np.int8) - 8
    with np.errstate(invalid="ignore", over="ignore"):  # damaged scales are told by the caller, which checks
        values *= scale
    return values.ravel()


def _names(shape: Shape) -> list[tuple[str, str, tuple[int, ...]]]:
    """Return for each tensor its name in the file, in BertModel, and its shape."""
    h, f = shape.hidden, shape.feed_forward
    names: list[tuple[str, str, tuple[int, ...]]] = [
        ("emb.word", "embeddings.word_embeddings.weight", (shape.vocabulary, h)),
        ("emb.pos", "embeddings.position_embeddings.weight", (shape.positions, h)),
        ("emb.type", "embeddings.token_type_embeddings.weight", (shape.types, h)),
        ("emb.ln.w", "embeddings.LayerNorm.weight", (h,)),
        ("emb.ln.b", "embeddings.LayerNorm.bias", (h,)),
    ]
    parts: list[tuple[str, str, tuple[int, ...]]] = [
        ("q", "attention.self.query", (h, h)),
        ("k", "attention.self.key", (h, h)),
        ("v", "attention.self.value", (h, h)),
        ("ao", "attention.output.dense", (h, h)),
        ("aln", "attention.output.LayerNorm", (h,)),
        ("fi", "intermediate.dense", (f, h)),
        ("fo", "output.dense", (h, f)),
        ("oln", "output.LayerNorm", (h,)),
    ]
    for layer in range(shape.layers):
        for ours, theirs, size in parts:
            names.append((f"l{layer}.{ours}.w", f"encoder.layer.{layer}.{theirs}.weight", size))
            names.append((f"l{layer}.{ours}.b", f"encoder.layer.{layer}.{theirs}.bias", size[:1]))
    return names
