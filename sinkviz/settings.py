"""What to compute: the choices that turn two texts into one coupling, as they stand in session files and tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from sinkviz.coupling import MECHANISMS, Coupling, Mechanism
from sinkviz.measure import UNITS, Measure, Unit

if TYPE_CHECKING:
    from sinkviz.transformer import SinkhornTransformer

DEFAULT_MODEL = "all-MiniLM-L6-v2"
_MOST_CHARACTERS = 200


@dataclass(frozen=True)
class CouplingSettings:
    """The options of `sinkviz.embed` and `sinkviz.couple` that make a result repeatable.

    Attributes:
        model: name of the embedding model.
        layer: hidden layer; None = the model's default.
        unit: what is solved on.
        centre: subtract the mean of each text's tokens.
        mechanism: which problem is solved.
        epsilon: ε; None = the default (0.35 of the cost's scale, or the encoder's own).
        epsilon_unit: "scale" or "absolute"; None = as `couple` takes it.
        relaxation: ρ, for "relaxed" only.
        null_cost: price of having no partner, for "partial" and "softmax".
        encoder: name of a trained Sinkhorn Transformer; None = cosine costs.

    Raises:
        ValueError: a value of the wrong kind or out of range, named.

    Example:
        >>> CouplingSettings(mechanism="relaxed", relaxation=0.5).epsilon is None
        True
    """

    model: str = DEFAULT_MODEL
    layer: int | None = None
    unit: Unit = "word"
    centre: bool = False
    mechanism: Mechanism = "sinkhorn"
    epsilon: float | None = None
    epsilon_unit: str | None = None
    relaxation: float | None = None
    null_cost: float | None = None
    encoder: str | None = None

    def __post_init__(self) -> None:
        for name in ("model", "encoder"):
            value = getattr(self, name)
            if value is None and name == "encoder":
                continue
            if not isinstance(value, str) or not 1 <= len(value) <= _MOST_CHARACTERS:
                raise ValueError(f"{name}: expected a name of 1 to {_MOST_CHARACTERS} characters, got {value!r:.60}")
        if self.layer is not None and (type(self.layer) is not int or not 0 <= self.layer <= 1000):
            raise ValueError(f"layer: expected a whole number from 0 to 1000 or none, got {self.layer!r:.60}")
        if self.unit not in UNITS:
            raise ValueError(f"unit: expected one of {', '.join(UNITS)}, got {self.unit!r:.60}")
        if type(self.centre) is not bool:
            raise ValueError(f"centre: expected true or false, got {self.centre!r:.60}")
        if self.mechanism not in MECHANISMS:
            raise ValueError(f"mechanism: expected one of {', '.join(MECHANISMS)}, got {self.mechanism!r:.60}")
        if self.epsilon_unit not in (None, "scale", "absolute"):
            raise ValueError(f'epsilon_unit: expected "scale", "absolute" or none, got {self.epsilon_unit!r:.60}')
        for name in ("epsilon", "relaxation", "null_cost"):
            value = getattr(self, name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"{name}: expected a number or none, got {value!r:.60}")
            number = _float(value)
            if math.isnan(number) or (math.isinf(number) and not (name == "relaxation" and number > 0)):
                raise ValueError(f"{name}: expected a finite number, got {value!r:.60}")
            object.__setattr__(self, name, number)
        if self.epsilon is not None and (self.epsilon < 0 or (self.epsilon == 0) != (self.mechanism == "exact")):
            raise ValueError(
                f'epsilon: expected a number > 0 (or none; 0 belongs to mechanism "exact"), got {self.epsilon} '
                f'with "{self.mechanism}"'
            )
        if (self.relaxation is not None) != (self.mechanism == "relaxed") or (self.relaxation or 0.0) < 0:
            raise ValueError(
                f'relaxation: expected a number >= 0 with mechanism "relaxed" and none with others, got '
                f'{self.relaxation} with "{self.mechanism}"'
            )
        if self.mechanism == "partial" and self.null_cost is None:
            raise ValueError('null_cost: mechanism "partial" needs the price of having no partner, got none')
        if self.null_cost is not None and self.mechanism not in ("partial", "softmax"):
            raise ValueError(
                f'null_cost: it belongs to mechanism "partial" or "softmax", got {self.null_cost} '
                f'with "{self.mechanism}"'
            )

    @classmethod
    def of(cls, coupling: Coupling, *, encoder: str | None = None) -> CouplingSettings:
        """Return the settings that a coupling was made with; ε is given as an absolute number."""
        solved = coupling.solved or coupling
        origin = solved.source.origin
        return cls(
            model=origin.model or DEFAULT_MODEL,
            layer=origin.layer,
            unit=solved.source.unit,
            centre=origin.centred,
            mechanism=solved.mechanism,
            epsilon=solved.epsilon,
            epsilon_unit="absolute",
            relaxation=solved.relaxation,
            null_cost=solved.null_cost,
            encoder=encoder,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the settings as JSON values; an infinite relaxation is spelled "inf"."""
        values = asdict(self)
        if values["relaxation"] == math.inf:
            values["relaxation"] = "inf"
        return values

    @classmethod
    def from_json(cls, values: object) -> CouplingSettings:
        """Return the settings that `as_json` wrote.

        Raises:
            ValueError: not an object of known names, or a value out of range.

        >>> CouplingSettings.from_json(CouplingSettings(unit="token").as_json()).unit
        'token'
        """
        if not isinstance(values, Mapping):
            raise ValueError(f"settings: expected an object, got {type(values).__name__}")
        names = [field.name for field in fields(cls)]
        unknown = sorted(str(name)[:40] for name in values if name not in names)
        if unknown:
            raise ValueError(f"settings: expected only {', '.join(names)}, got {', '.join(unknown[:5])}")
        given = dict(values)
        if given.get("relaxation") == "inf":
            given["relaxation"] = math.inf
        return cls(**given)

    def embedding(self) -> dict[str, Any]:
        """Return the keywords of `sinkviz.embed`."""
        return {"model": self.model, "layer": self.layer, "unit": self.unit, "centre": self.centre}

    def solving(self) -> dict[str, Any]:
        """Return the keywords of `sinkviz.couple` for two measures; the encoder is loaded."""
        return {
            "mechanism": self.mechanism,
            "epsilon": self.epsilon,
            "epsilon_unit": self.epsilon_unit,
            "relaxation": self.relaxation,
            "null_cost": self.null_cost,
            "encoder": None if self.encoder is None else load_encoder(self.encoder),
        }

    def embed(self, text: str | Sequence[str], weights: ArrayLike | None = None) -> Measure:
        """Return the measure of a text under these settings."""
        from sinkviz.pipeline import embed

        return embed(text, weights="uniform" if weights is None else weights, **self.embedding())

    def couple(self, source: str | Sequence[str] | Measure, target: str | Sequence[str] | Measure) -> Coupling:
        """Return the coupling of two texts or measures under these settings.

        Raises:
            ValueError: as `sinkviz.embed` and `sinkviz.couple` raise it.
        """
        from sinkviz.pipeline import couple

        first = source if isinstance(source, Measure) else self.embed(source)
        second = target if isinstance(target, Measure) else self.embed(target)
        return couple(first, second, **self.solving())

    def attention(self) -> CouplingSettings:
        """Return the same settings for softmax attention on the same scores."""
        if self.mechanism == "exact":
            return replace(self, mechanism="softmax", relaxation=None, epsilon=None, epsilon_unit=None)
        return replace(self, mechanism="softmax", relaxation=None)


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def load_encoder(name: str) -> SinkhornTransformer:
    """Return a trained Sinkhorn Transformer by its name.

    Raises:
        ValueError: no such model, with those there are; or a damaged one.
    """
    from sinkviz.transformer.registry import get

    return get(name).load()
