"""The offline file and the notebook frame."""

from __future__ import annotations

import base64
import html
import re

import numpy as np
import pytest

from sinkviz.coupling import Coupling
from sinkviz.measure import Measure
from sinkviz.view.bundle import program
from sinkviz.view.html import notebook_html, offline_html
from sinkviz.view.payload import build, read_header

HOSTILE = "</script><script>alert(1)</script>"


def blob(label: str = "cat") -> bytes:
    x = Measure.from_points([[1.0, 0.0], [0.0, 1.0]], labels=[label, "dog"])
    return build(x, x, cost=[[-1, 0], [0, -1]], cost_scale=0.5, epsilons=[1.0, 0.1])


def test_it_holds_the_payload_and_opens_no_door() -> None:
    page = offline_html(blob())
    found = re.search(r'id="sinkviz-payload">([^<]*)</script>', page)
    assert found
    assert base64.b64decode(found.group(1)) == blob()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    assert policy.group(1).startswith("default-src 'none'")
    assert not re.search(r'(src|href)="(?!data:)', page.replace(program(), ""))


def test_hostile_text_cannot_leave_its_place() -> None:
    page = offline_html(blob(HOSTILE), title=HOSTILE)
    assert page.replace(program(), "").count("<script") == 3
    assert HOSTILE not in page
    assert html.escape(HOSTILE) in page


def test_settings_can_be_given_and_are_checked() -> None:
    assert '"epsilon": 0.2' in offline_html(blob(), settings={"epsilon": 0.2})
    with pytest.raises(ValueError, match="epsilon"):
        offline_html(blob(), settings={"epsilon": 0})
    with pytest.raises(ValueError, match="payload"):
        offline_html(b"nothing")


def test_a_notebook_shows_the_coupling_in_a_frame() -> None:
    x = Measure.from_points([[1.0, 0.0], [0.0, 1.0]], labels=["cat", HOSTILE])
    coupling = Coupling(
        plan=np.full((2, 2), 0.25),
        source=x,
        target=x,
        cost=np.array([[-1.0, 0], [0, -1]]),
        cost_scale=0.5,
        epsilon=0.25,
        f=None,
        g=None,
        mechanism="sinkhorn",
        status="converged",
        residual=0.0,
        iterations=3,
    )
    frame = notebook_html(coupling, height=400)
    assert frame.count("<") == 2
    inside = html.unescape(frame.split('srcdoc="')[1].split('" title=')[0])
    payload = base64.b64decode(inside.split('id="sinkviz-payload">')[1].split("<")[0])
    assert read_header(payload)["settings"]["epsilon"] == pytest.approx(0.5)
