"""The view's JavaScript as one string: the modules of `static/` joined in the order in which they need each other.

No build step and no bundled file to keep in step: Python joins the plain ES modules when it first needs them. They
keep to a small subset, which a test checks: `import { names } from "./module.js"`, `import text from "./file.css"`,
and `export` before `function`, `const` or `class`.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import get_args

from sinkviz.figures.palette import ThemeName, palette

PALETTE = "palette.json"
"""No file: the colours of `sinkviz.figures.palette`, so that there is one place for them."""

STATIC = Path(__file__).parent / "static"
_IMPORT = re.compile(r'^import\s+(\{[^}]*\}|\w+)\s+from\s+"\./([\w.-]+)";\s*$', re.MULTILINE)
_EXPORT = re.compile(r"^export\s+(default\s+)?(async\s+function\*?|function\*?|const|let|class)\s+(\w+)", re.MULTILINE)


@cache
def program() -> str:
    """Return JavaScript that defines `sinkvizView`: called, it returns the function that mounts the view."""
    parts: list[str] = []
    done: list[str] = []
    _join("index.js", parts, done, ())
    body = "\n".join(parts)
    return (
        "const sinkvizView = function sinkvizView() {\n"
        '"use strict";\n'
        f"{body}\n"
        'return $index.default("const sinkvizView = " + sinkvizView.toString() + ";");\n'
        "};"
    )


def component_javascript() -> str:
    """Return the module for `st.components.v2.component(name, js=…)`: its default export mounts the view."""
    return f"{program()}\nexport default sinkvizView();\n"


def _palette() -> str:
    themes: tuple[ThemeName, ...] = get_args(ThemeName)
    return json.dumps({theme: asdict(palette(theme)) for theme in themes})


def _variable(name: str) -> str:
    return "$" + re.sub(r"\W", "_", name.removesuffix(".js"))


def _join(name: str, parts: list[str], done: list[str], above: tuple[str, ...]) -> None:
    if name in done:
        return
    if name in above:
        raise ValueError(f"{name}: expected modules without cycles, got {' → '.join((*above, name))}")
    source = (STATIC / name).read_text(encoding="utf-8")

    def needed(match: re.Match[str]) -> str:
        names, file = match.group(1), match.group(2)
        if file == PALETTE:
            return f"const {names} = {_palette()};"
        if not file.endswith(".js"):
            # "</" would end the script element of the offline file.
            text = (
                json.dumps((STATIC / file).read_text(encoding="utf-8")).replace("</", "<\\/").replace("<!--", "<\\!--")
            )
            return f"const {names} = {text};"
        _join(file, parts, done, (*above, name))
        return f"const {names.replace(' as ', ': ')} = {_variable(file)};"

    code = _IMPORT.sub(needed, source)
    exported = [f"default: {m.group(3)}" if m.group(1) else m.group(3) for m in _EXPORT.finditer(code)]
    code = _EXPORT.sub(r"\2 \3", code)
    left = re.search(r"^(import|export)\b.*", code, re.MULTILINE)
    if left:
        raise ValueError(f"{name}: expected the plain import and export forms only, got {left.group(0)!r}")
    parts.append(f"const {_variable(name)} = (() => {{\n{code}\nreturn {{ {', '.join(exported)} }};\n}})();")
    done.append(name)
