"""Words on the page: text of the user's is shown as text, never as markup."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sinkviz.measure import Measure
    from sinkviz.transformer.registry import Checkpoint

_MARKUP = frozenset("\\`*_{}[]()#+-.!|<>$:~&=^")


def plain(text: str) -> str:
    """Return text so that Streamlit's markdown shows it as it stands.

    >>> plain("$x^2$ :red[x] <b>")
    '\\\\$x\\\\^2\\\\$ \\\\:red\\\\[x\\\\] \\\\<b\\\\>'
    """
    return "".join(f"\\{character}" if character in _MARKUP else character for character in text)


def say(show: Callable[..., Any], words: str, quoted: str = "") -> None:
    """Show a message: our words as markdown, what is quoted from elsewhere as plain text."""
    show(words + plain(quoted))


def warn_of_other_vectors(show: Callable[..., Any], checkpoint: Checkpoint, measure: Measure) -> None:
    """Say so where a trained model meets other vectors than it was trained on: of the same length, but strangers."""
    found = checkpoint.mismatch(measure.origin)
    if found:
        say(show, "The trained model does not know these vectors, so its scores mean little here: ", f"{found}.")


def count(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> count(1, "word"), count(1200, "token")
    ('1 word', '1,200 tokens')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
