"""No page breaks the rules that axe checks: names, roles, contrast, keyboard reach, in light and dark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sinkviz.ui.frame import PAGES

UPLOADER = 'data-testid="stFileUploaderDropzone"'
"""Streamlit gives its drop zone a role and a name that exclude each other; the button inside it is in order."""


def violations(page: Any) -> list[str]:
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [
        f"{rule['id']}: {rule['help']}: {node['target']} {node['html'][:160]} {node['failureSummary'][:200]}"
        for rule in found
        for node in rule["nodes"]
        if not (rule["id"] == "presentation-role-conflict" and UPLOADER in node["html"])
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", list(PAGES))
def test_a_page_has_no_violations(server: Any, open_page: Callable[..., Any], name: str, scheme: str) -> None:
    page = open_page(f"{server.url}/{name}", color_scheme=scheme)
    page.get_by_role("heading").or_(page.locator("header.sinkviz-head")).first.wait_for()
    page.wait_for_function("() => !document.querySelector('[data-testid=stStatusWidget]')", timeout=60_000)
    page.wait_for_timeout(1500)
    found = violations(page)
    assert not found, "\n".join(found)
