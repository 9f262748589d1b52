"""The settings of the live view: one dictionary that JavaScript, the URL and a session file share.

Every value is JSON: numbers, strings, lists, dictionaries; ∞ is the string "inf". Indices count atoms of the measures.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

Settings = dict[str, Any]

LEVELS = ("token", "word", "sentence")
COLOURS = ("mass", "lift", "difference")
MODES = ("steps", "relaxation")
PRESETS = ("given", "uniform", "length", "inverse_frequency")
DROPS = ("punctuation", "stop_words")
MAXIMUM_PINS = 24

_PLAIN_WEIGHTS: Settings = {"preset": "given", "drop": [], "factors": {}}


def defaults() -> Settings:
    """Return fresh default settings.

    `epsilon` and `relaxation` are in the unit of the payload (σ of the double-centred cost, or absolute); `level`
    None leaves the choice to the size of the texts; `steps` "inf" is the converged coupling, 0.5 is softmax.

    >>> defaults()["epsilon"], defaults()["steps"]
    (0.35, 'inf')
    """
    return {
        "epsilon": 0.35,
        "mode": "steps",
        "steps": "inf",
        "relaxation": "inf",
        "level": None,
        "colour": "mass",
        "share": 0.7,
        "source_range": None,
        "target_range": None,
        "renormalise": False,
        "pins": [],
        "weights": {"source": _copy(_PLAIN_WEIGHTS), "target": _copy(_PLAIN_WEIGHTS)},
    }


def _copy(value: Settings) -> Settings:
    return {key: list(v) if isinstance(v, list) else dict(v) if isinstance(v, dict) else v for key, v in value.items()}


def validate(given: Mapping[str, Any]) -> Settings:
    """Return complete settings: what is missing takes its default.

    Args:
        given: some or all settings, for example what the view sent or a session file holds.

    Raises:
        ValueError: an unknown name, or a value out of range.

    >>> validate({"epsilon": 0.1})["epsilon"]
    0.1
    """
    result = defaults()
    unknown = sorted(set(given) - set(result))
    if unknown:
        raise ValueError(f"settings: expected {', '.join(result)}, got {', '.join(unknown)}")
    for name, value in given.items():
        result[name] = _CHECKS[name](name, value)
    return result


def _choice(*options: str | None) -> Any:
    def check(name: str, value: object) -> object:
        if value not in options:
            raise ValueError(f"{name}: expected one of {', '.join(map(str, options))}, got {value!r}")
        return value

    return check


def _number(low: float, *, infinite: bool, open_end: bool = False) -> Any:
    def check(name: str, value: object) -> object:
        if infinite and value in ("inf", math.inf):
            return "inf"
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise ValueError(f"{name}: expected a number{' or inf' if infinite else ''}, got {value!r}")
        if value < low or (open_end and value == low):
            raise ValueError(f"{name}: expected a number {'>' if open_end else '>='} {low}, got {value}")
        return float(value)

    return check


def _steps(name: str, value: object) -> object:
    number = _number(0.5, infinite=True)(name, value)
    if number != "inf" and (number * 2 != int(number * 2) or number > 1e6):
        raise ValueError(f"{name}: expected half-steps 0.5, 1, 1.5, … up to 1,000,000 or inf, got {value!r}")
    return number


def _share(name: str, value: object) -> object:
    number = _number(0.0, infinite=False, open_end=True)(name, value)
    if number > 1:
        raise ValueError(f"{name}: expected a share of the mass in (0, 1], got {value!r}")
    return number


def _range(name: str, value: object) -> object:
    if value is None:
        return None
    if (
        not isinstance(value, (list, tuple))
        or len(value) != 2
        or not all(isinstance(v, int) and not isinstance(v, bool) for v in value)
        or not 0 <= value[0] < value[1]
    ):
        raise ValueError(f"{name}: expected [start, end] with 0 <= start < end in atoms, or None, got {value!r}")
    return list(value)


def _flag(name: str, value: object) -> object:
    if not isinstance(value, bool):
        raise ValueError(f"{name}: expected True or False, got {value!r}")
    return value


def _pins(name: str, value: object) -> object:
    if not isinstance(value, (list, tuple)) or len(value) > MAXIMUM_PINS:
        raise ValueError(f"{name}: expected a list of at most {MAXIMUM_PINS} pins, got {value!r:.80}")
    pins = []
    for pin in value:
        if not isinstance(pin, Mapping) or set(pin) != {"source", "target"}:
            raise ValueError(f"{name}: expected pins with source and target, got {pin!r:.80}")
        both = {side: _range(f"{name}.{side}", pin[side]) for side in ("source", "target")}
        if both["source"] is None and both["target"] is None:
            raise ValueError(f"{name}: expected a source, a target or both in a pin, got neither")
        pins.append(both)
    return pins


def _weights(name: str, value: object) -> object:
    if not isinstance(value, Mapping) or set(value) != {"source", "target"}:
        raise ValueError(f"{name}: expected a dictionary with source and target, got {value!r:.80}")
    return {side: validate_weight_choice(f"{name}.{side}", value[side]) for side in ("source", "target")}


def validate_weight_choice(name: str, value: object) -> Settings:
    """Return a complete weight choice: `preset`, `drop` and `factors` (atom index as a string: factor ≥ 0).

    Raises:
        ValueError: an unknown preset or group, a factor that is negative or not finite.
    """
    if not isinstance(value, Mapping) or not set(value) <= set(_PLAIN_WEIGHTS):
        raise ValueError(f"{name}: expected preset, drop and factors, got {value!r:.80}")
    full = {**_copy(_PLAIN_WEIGHTS), **value}
    if full["preset"] not in PRESETS:
        raise ValueError(f"{name}.preset: expected one of {', '.join(PRESETS)}, got {full['preset']!r}")
    if not isinstance(full["drop"], (list, tuple)) or not set(full["drop"]) <= set(DROPS):
        raise ValueError(f"{name}.drop: expected some of {', '.join(DROPS)}, got {full['drop']!r}")
    if not isinstance(full["factors"], Mapping):
        raise ValueError(f"{name}.factors: expected atom indices with factors, got {full['factors']!r:.80}")
    factors: dict[str, float] = {}
    for key, factor in full["factors"].items():
        if not re.fullmatch(r"\d{1,9}", str(key)):
            raise ValueError(f"{name}.factors: expected the index of an atom, got {key!r}")
        factors[str(int(key))] = _number(0.0, infinite=False)(f"{name}.factors[{key}]", factor)
    return {
        "preset": full["preset"],
        "drop": [group for group in DROPS if group in full["drop"]],
        "factors": dict(sorted(factors.items(), key=lambda item: int(item[0]))),
    }


_CHECKS = {
    "epsilon": _number(0.0, infinite=False, open_end=True),
    "mode": _choice(*MODES),
    "steps": _steps,
    "relaxation": _number(0.0, infinite=True),
    "level": _choice(None, *LEVELS),
    "colour": _choice(*COLOURS),
    "share": _share,
    "source_range": _range,
    "target_range": _range,
    "renormalise": _flag,
    "pins": _pins,
    "weights": _weights,
}


def to_query(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings that differ from the defaults as URL parameters.

    >>> to_query({"epsilon": 0.1, "source_range": [2, 5], "pins": [{"source": [1, 2], "target": None}]})
    {'epsilon': '0.1', 'source_range': '2-5', 'pins': '1-2:'}
    """
    full = validate(settings)
    plain = defaults()
    query = {}
    for name, value in full.items():
        if value == plain[name]:
            continue
        if name == "weights":
            for side in ("source", "target"):
                if value[side] != _PLAIN_WEIGHTS:
                    query[f"{side}_weights"] = _weights_text(value[side])
        elif name == "pins":
            query[name] = ",".join(f"{_range_text(p['source'])}:{_range_text(p['target'])}" for p in value)
        elif name.endswith("_range"):
            query[name] = _range_text(value)
        elif isinstance(value, bool):
            query[name] = "1"
        else:
            query[name] = f"{value:.12g}" if isinstance(value, float) else str(value)
    return query


def from_query(query: Mapping[str, str]) -> Settings:
    """Return the settings that URL parameters hold; other parameters are left alone.

    Raises:
        ValueError: a parameter of ours that cannot be read.

    >>> from_query({"epsilon": "0.1", "page": "3"})["epsilon"]
    0.1
    """
    given: Settings = {}
    plain = defaults()
    for name, text in query.items():
        if name in ("source_weights", "target_weights"):
            given.setdefault("weights", plain["weights"])
            given["weights"][name.removesuffix("_weights")] = _read_weights(name, text)
        elif name not in plain or name == "weights":
            continue
        elif name == "pins":
            given[name] = [_read_pin(part) for part in text.split(",") if part]
        elif name.endswith("_range"):
            given[name] = _read_range(name, text)
        elif name == "renormalise":
            given[name] = text == "1"
        elif name in ("epsilon", "share") or (name in ("steps", "relaxation") and text != "inf"):
            try:
                given[name] = float(text)
            except ValueError as error:
                raise ValueError(f"{name}: expected a number, got {text!r:.40}") from error
        else:
            given[name] = text
    return validate(given)


def _range_text(value: list[int] | None) -> str:
    return "" if value is None else f"{value[0]}-{value[1]}"


def _read_range(name: str, text: str) -> list[int] | None:
    if text == "":
        return None
    match = re.fullmatch(r"(\d{1,9})-(\d{1,9})", text)
    if not match:
        raise ValueError(f"{name}: expected start-end, got {text!r:.40}")
    return [int(match[1]), int(match[2])]


def _read_pin(text: str) -> dict[str, list[int] | None]:
    source, colon, target = text.partition(":")
    if not colon:
        raise ValueError(f"pins: expected start-end:start-end, got {text!r:.40}")
    return {"source": _read_range("pins", source), "target": _read_range("pins", target)}


def _weights_text(choice: Mapping[str, Any]) -> str:
    parts = [choice["preset"], *choice["drop"]]
    parts += [f"{key}*{factor:.12g}" for key, factor in choice["factors"].items()]
    return ",".join(parts)


def _read_weights(name: str, text: str) -> Settings:
    choice = _copy(_PLAIN_WEIGHTS)
    for part in text.split(","):
        key, star, factor = part.partition("*")
        if star:
            try:
                choice["factors"][key] = float(factor)
            except ValueError as error:
                raise ValueError(f"{name}: expected index*factor, got {part!r:.40}") from error
        elif part in DROPS:
            choice["drop"].append(part)
        else:
            choice["preset"] = part
    return validate_weight_choice(name, choice)
