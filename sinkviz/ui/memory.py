"""What was typed survives a reload of the page: the browser tab keeps it, the server does not."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import streamlit as st

SOURCE, TARGET = "Source text", "Target text"
"""Labels of the two text areas; the script finds them by these names."""

_SCRIPT = """
const KEY = "sinkviz.texts";
const PAUSE = 600; // milliseconds
let pause = 0;
const read = () => {
  try { return JSON.parse(sessionStorage.getItem(KEY)) || {}; } catch { return {}; }
};
const write = (value) => {
  try { sessionStorage.setItem(KEY, JSON.stringify(value)); } catch { /* storage full or forbidden */ }
};
export default function ({ data, setTriggerValue }) {
  const { fresh, labels, texts } = data;
  const kept = read();
  if (fresh) {
    if (typeof kept.source === "string" || typeof kept.target === "string") setTriggerValue("restored", kept);
  } else {
    write(texts);
  }
  // Streamlit sends a text when its field is left. Here the tab keeps every keystroke, and a pause sends the text.
  const onInput = (event) => {
    const field = event.target;
    const name = Object.keys(labels).find((key) => labels[key] === field?.getAttribute?.("aria-label"));
    if (!name || event.isComposing) return;
    write({ ...read(), [name]: field.value });
    clearTimeout(pause);
    pause = setTimeout(() => {
      if (!field.isConnected) return;
      field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", code: "Enter", ctrlKey: true, bubbles: true }));
    }, PAUSE);
  };
  document.addEventListener("input", onInput, true);
  return () => document.removeEventListener("input", onInput, true);
}
"""

_component = st.components.v2.component("sinkviz_memory", js=_SCRIPT)


def remember(source: str, target: str, restore: Callable[[str | None, str | None], None]) -> None:
    """Keep both texts in the browser tab; on the first run of a session bring back what the tab still has.

    Args:
        source, target: the texts as they stand.
        restore: called before the next run with what the tab had kept (None for a missing one).
    """
    fresh = not st.session_state.get("memory_asked", False)
    st.session_state["memory_asked"] = True

    def restored() -> None:
        kept: Any = st.session_state["memory"].get("restored")
        if isinstance(kept, str):
            kept = json.loads(kept)
        if isinstance(kept, dict):
            texts = [kept.get(name) for name in ("source", "target")]
            restore(*(text if isinstance(text, str) else None for text in texts))

    _component(
        key="memory",
        data={
            "fresh": fresh,
            "labels": {"source": SOURCE, "target": TARGET},
            "texts": {"source": source, "target": target},
        },
        on_restored_change=restored,
        height=1,
    )
