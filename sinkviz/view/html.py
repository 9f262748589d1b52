"""The live view as one HTML file that needs no server and no network, and as HTML for notebooks."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Mapping
from typing import Any

from sinkviz.coupling import Coupling
from sinkviz.view.bundle import STATIC, program
from sinkviz.view.payload import from_coupling, read_header
from sinkviz.view.settings import validate


def offline_html(payload: bytes, *, title: str | None = None, settings: Mapping[str, Any] | None = None) -> str:
    """Return one self-contained HTML document with the live view.

    It loads nothing: its content security policy forbids every request.

    Args:
        payload: bytes of `sinkviz.view.payload.build`.
        title: the document's title; the payload's title or the texts if None.
        settings: settings to open with; the payload's own if None.

    Raises:
        ValueError: bytes that are no payload, settings that cannot be read.

    Example:
        >>> from sinkviz.measure import Measure
        >>> from sinkviz.view.payload import build
        >>> x = Measure.from_points([[1.0, 0.0], [0.0, 1.0]], labels=["cat", "dog"])
        >>> page = offline_html(build(x, x, cost=[[-1, 0], [0, -1]], cost_scale=0.5, epsilons=[1.0, 0.1]))
        >>> page.startswith("<!doctype html>"), "https://" in page
        (True, False)
    """
    header = read_header(payload)
    name = (
        title
        or header["facts"].get("title")
        or f"sinkviz: {_short(header['source']['text'])} × {_short(header['target']['text'])}"
    )
    chosen = header["settings"] if settings is None else validate(settings)
    fill = {
        "TITLE": html.escape(name),
        "SETTINGS": json.dumps(chosen).replace("<", "\\u003c"),
        "PAYLOAD": base64.b64encode(payload).decode("ascii"),
        "VIEW": program(),
    }
    template = (STATIC / "offline.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(TITLE|SETTINGS|PAYLOAD|VIEW)\}\}", lambda match: fill[match.group(1)], template)


def notebook_html(coupling: Coupling, *, height: int = 900) -> str:
    """Return the live view of a coupling as an iframe, for `Coupling._repr_html_`.

    Args:
        coupling: any coupling; the view opens at its mechanism and ε.
        height: of the frame, in CSS pixels.
    """
    document = html.escape(offline_html(from_coupling(coupling)), quote=True)
    return (
        f'<iframe srcdoc="{document}" title="sinkviz: coupling of two texts" sandbox="allow-scripts allow-downloads" '
        f'style="width:100%;height:{int(height)}px;border:0"></iframe>'
    )


def _short(text: str, length: int = 60) -> str:
    clean = " ".join(text.split())
    return clean if len(clean) <= length else clean[: length - 1] + "…"
