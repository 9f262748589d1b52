"""The hub is asked only where that is allowed, and its silence is told fast and in words."""

from __future__ import annotations

import pytest

from sinkviz.embedding.hub import hub_problem, network_allowed


@pytest.mark.parametrize(("value", "allowed"), [("1", False), ("true", False), ("ON", False), ("0", True), ("", True)])
def test_the_variable_that_forbids(value: str, allowed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", value)
    assert network_allowed() is allowed


def test_offline_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def refuse(*args: object, **options: object) -> None:
        raise AssertionError("the hub was asked")

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", refuse)
    assert hub_problem("owner/model") == "HF_HUB_OFFLINE forbids the network"


def test_silence_and_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def fail(*args: object, **options: object) -> None:
        raise RuntimeError("name or service\nnot known")

    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", fail)
    assert hub_problem("owner/model") == "the hub did not answer (name or service not known)"
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda *args, **options: None)
    assert hub_problem("owner/model") is None
