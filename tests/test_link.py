"""Texts in a link: there and back, and nothing damaged or huge gets in."""

import base64
import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinkviz.text import MAX_CHARACTERS
from sinkviz.ui.link import MAXIMUM_PARAMETER, pack, unpack

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)


@given(TEXTS, TEXTS)
def test_texts_come_back_as_they_were(source: str, target: str) -> None:
    packed = pack(source, target)
    assert packed is not None
    assert len(packed) <= MAXIMUM_PARAMETER
    assert unpack(packed) == (source, target)


@given(st.text(max_size=200))
def test_anything_else_is_refused_with_one_message(parameter: str) -> None:
    said = ""
    try:
        unpack(parameter)
    except ValueError as error:
        said = str(error)
    assert said == "" or "damaged" in said


def packed(raw: bytes) -> str:
    return base64.urlsafe_b64encode(zlib.compress(raw, 9)).decode().rstrip("=")


@pytest.mark.parametrize(
    "raw",
    [
        b"[1, 2]",
        b'["a"]',
        b'{"a": 1}',
        b"not json",
        b"\xff\xfe",
        json.dumps(["a", "b", "c"]).encode(),
        b"[" * 100_000,
        json.dumps(["x" * (9 * MAX_CHARACTERS), ""]).encode(),
    ],
)
def test_foreign_content_and_bombs_are_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match="damaged"):
        unpack(packed(raw))


def test_long_texts_get_no_link() -> None:
    import random

    rng = random.Random(0)
    noise = "".join(chr(rng.randrange(0x4E00, 0x9FFF)) for _ in range(5000))
    assert pack(noise, noise[::-1]) is None
