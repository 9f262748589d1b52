"""The public hub of models: whether it may be asked, and whether it answers."""

from __future__ import annotations

import os

_SECONDS = 5.0


def network_allowed() -> bool:
    """Return whether the hub may be asked: not where HF_HUB_OFFLINE says otherwise."""
    return os.environ.get("HF_HUB_OFFLINE", "").strip().lower() not in ("1", "true", "yes", "on")


def hub_problem(name: str, revision: str | None = None) -> str | None:
    """Return why a model cannot be fetched from the hub, or None if it can.

    One short question, because the clients that fetch files try again for minutes before they give up.
    """
    if not network_allowed():
        return "HF_HUB_OFFLINE forbids the network"
    from huggingface_hub import HfApi

    try:
        HfApi().model_info(name, revision=revision, timeout=_SECONDS)
    except Exception as error:  # each HTTP client has its own family of errors; the reason is passed on
        return f"the hub did not answer ({' '.join(str(error).split())[:200] or type(error).__name__})"
    return None
