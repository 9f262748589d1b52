"""Two texts in a URL parameter, when the user asks for a link, and back."""

from __future__ import annotations

import base64
import binascii
import json
import zlib

from sinkviz.text import MAX_CHARACTERS

MAXIMUM_PARAMETER = 6000
"""Longer parameters are not made: proxies often stop at 8 KB for the whole address."""

_MAXIMUM_BYTES = 2 * (4 * MAX_CHARACTERS) + 64


def pack(source: str, target: str) -> str | None:
    """Return both texts as one URL-safe parameter, or None where it would be too long for a link.

    >>> unpack(pack("Grüße", "greetings"))
    ('Grüße', 'greetings')
    """
    raw = json.dumps([source, target], ensure_ascii=False).encode("utf-8", "surrogatepass")
    packed = base64.urlsafe_b64encode(zlib.compress(raw, 9)).decode("ascii").rstrip("=")
    return packed if len(packed) <= MAXIMUM_PARAMETER else None


def unpack(parameter: str) -> tuple[str, str]:
    """Return the two texts of a parameter that `pack` made.

    Raises:
        ValueError: anything else; it never expands to more than two texts of the allowed length.
    """
    message = "link: expected texts packed by sinkviz, got something damaged; ask for the link again"
    if len(parameter) > 2 * MAXIMUM_PARAMETER:
        raise ValueError(message)
    try:
        padded = (parameter + "=" * (-len(parameter) % 4)).encode("ascii")
        packed = base64.b64decode(padded, altchars=b"-_", validate=True)
        expander = zlib.decompressobj()
        raw = expander.decompress(packed, _MAXIMUM_BYTES)
        if expander.unconsumed_tail or not expander.eof:
            raise ValueError(message)
        texts = json.loads(raw.decode("utf-8"))
    except (binascii.Error, zlib.error, UnicodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(message) from error
    if not (isinstance(texts, list) and len(texts) == 2 and all(isinstance(text, str) for text in texts)):
        raise ValueError(message)
    return texts[0], texts[1]
