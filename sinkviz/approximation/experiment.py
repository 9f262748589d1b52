"""Experiments: how near a trained model comes to a coupling system, against what it was given."""

from __future__ import annotations

import json
import math
import os
import platform
import shlex
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from sinkviz.approximation.distance import coupling_distance
from sinkviz.approximation.systems import CouplingSystem, get_system
from sinkviz.transformer.model import SinkhornTransformer
from sinkviz.transformer.pairs import Pairs
from sinkviz.transformer.training import Progress, Trainer, TrainingConfig

Kind = Literal["sinkhorn", "softmax", "independent"]
KINDS: tuple[Kind, ...] = ("sinkhorn", "softmax", "independent")
FORMAT = "sinkviz.ApproximationResult"
VERSION = 1


@dataclass(frozen=True)
class ExperimentConfig:
    """What is compared. Every combination of kind, size, ε, training size and seed is one run.

    Attributes:
        system: name in `SYSTEMS`.
        kinds: "sinkhorn" and "softmax" are trained, alike in everything but the last normalisation; "independent"
            is a⊗b.
        sizes: (width, layers) of both encoders.
        epsilons: ε of the system and of the models, absolute.
        training_sizes: number of training pairs.
        seeds: each draws its own training pairs, weights and order.
        steps, batch: budget of every trained run.
        learning_rates: the best of them on validation pairs is taken, for each kind, size, ε and training size apart;
            one alone is taken as it is.
        search_steps: budget of each trial in that choice.
        train_points, test_points: smallest and largest clouds trained on and tested on.
        held_out: test pairs, the same for all runs.
        validation: pairs for choosing the rate and the best weights.
        far_points: larger clouds, all of exactly that many points, tested besides.
        far_pairs: pairs of each.
        heads, out: of the encoders; fewer heads where the width is not a multiple.

    Raises:
        ValueError: an unknown system or kind, an empty axis, a number out of range.
    """

    system: str
    kinds: tuple[Kind, ...] = KINDS
    sizes: tuple[tuple[int, int], ...] = ((32, 2),)
    epsilons: tuple[float, ...] = (0.1,)
    training_sizes: tuple[int, ...] = (8192,)
    seeds: tuple[int, ...] = (0, 1, 2)
    steps: int = 2000
    batch: int = 32
    learning_rates: tuple[float, ...] = (2e-3, 5e-3)
    search_steps: int = 300
    train_points: tuple[int, int] = (6, 20)
    test_points: tuple[int, int] = (6, 24)
    held_out: int = 200
    validation: int = 128
    far_points: tuple[int, ...] = ()
    far_pairs: int = 10
    heads: int = 4
    out: int = 16

    def __post_init__(self) -> None:
        get_system(self.system)
        unknown = [kind for kind in self.kinds if kind not in KINDS]
        if unknown:
            raise ValueError(f"kinds: expected some of {', '.join(KINDS)}, got {', '.join(map(str, unknown))}")
        for name in ("kinds", "sizes", "epsilons", "training_sizes", "seeds", "learning_rates"):
            values = getattr(self, name)
            if not values or len(set(values)) != len(values):
                raise ValueError(f"{name}: expected at least one value and none twice, got {values!r}")
        for name in ("steps", "batch", "search_steps", "held_out", "validation", "far_pairs", "heads", "out"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name}: expected a whole number >= 1, got {value!r}")
        for width, layers in self.sizes:
            if width < 1 or layers < 0:
                raise ValueError(f"sizes: expected width >= 1 and layers >= 0, got {width}x{layers}")
        for name in ("epsilons", "learning_rates"):
            if any(not math.isfinite(value) or value <= 0 for value in getattr(self, name)):
                raise ValueError(f"{name}: expected finite numbers > 0, got {getattr(self, name)!r}")
        for name in ("train_points", "test_points"):
            low, high = getattr(self, name)
            if not 1 <= low <= high:
                raise ValueError(f"{name}: expected 1 <= smallest <= largest, got {low} and {high}")
        if any(size < 1 for size in (*self.training_sizes, *self.far_points)):
            raise ValueError("training_sizes, far_points: expected whole numbers >= 1")

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> ExperimentConfig:
        """Read a configuration back; ValueError if it is none."""
        try:
            lists = {key: _tuples(value) for key, value in fields.items()}
            return cls(**lists)
        except TypeError as error:
            raise ValueError(f"experiment: not a configuration ({error!s:.120})") from error

    @property
    def command(self) -> str:
        """The command line that runs this experiment."""
        words = ["python", "-m", "sinkviz", "approximate", self.system]
        default = ExperimentConfig(self.system)
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if name == "system" or value == getattr(default, name):
                continue
            words.append("--" + name.replace("_", "-"))
            if name == "sizes":
                words += [f"{width}x{layers}" for width, layers in value]
            elif isinstance(value, tuple):
                words += [f"{one:g}" if isinstance(one, float) else str(one) for one in value]
            else:
                words.append(str(value))
        return shlex.join(words)

    def cells(self) -> list[Cell]:
        """Return every run, in the order they are made: cheap kinds and small sizes first."""
        found = []
        for epsilon in self.epsilons:
            if "independent" in self.kinds:
                found.append(Cell("independent", 0, 0, epsilon, 0, 0))
            for size in self.training_sizes:
                for width, layers in self.sizes:
                    for kind in self.kinds:
                        if kind != "independent":
                            found += [Cell(kind, width, layers, epsilon, size, seed) for seed in self.seeds]
        return found


def _tuples(value: Any) -> Any:
    return tuple(_tuples(one) for one in value) if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class Cell:
    """One run: what is trained on what. "independent" has no size, training pairs or seed (0)."""

    kind: Kind
    width: int
    layers: int
    epsilon: float
    training_size: int
    seed: int

    @property
    def group(self) -> tuple[Kind, int, int, float, int]:
        """The run without its seed: what intervals are taken over."""
        return (self.kind, self.width, self.layers, self.epsilon, self.training_size)

    @property
    def label(self) -> str:
        """A few words for a progress line."""
        if self.kind == "independent":
            return f"independent coupling, ε = {self.epsilon:g}"
        return (
            f"{self.kind}, width {self.width}, {self.layers} layer{'s' * (self.layers != 1)}, ε = {self.epsilon:g}, "
            f"{self.training_size} pairs, seed {self.seed}"
        )


@dataclass(frozen=True)
class Errors:
    """W1(T(μ,ν), F(μ,ν)) over test pairs.

    Attributes:
        mean: of the upper ends (exact values up to 32×32 points).
        largest: largest upper end seen; a lower bound of the sup over all pairs as far as it is exact.
        largest_lower: largest lower end.
        width: widest bracket; 0 if all are exact.
        pairs: how many.
        unconverged: pairs whose solve did not reach its tolerance (their plans are measured all the same).
    """

    mean: float
    largest: float
    largest_lower: float
    width: float
    pairs: int
    unconverged: int


@dataclass(frozen=True)
class Row:
    """The outcome of one run.

    Attributes:
        cell: which run.
        parameters: trained numbers of the model.
        learning_rate: the one chosen; 0 for "independent".
        status, message: of the training.
        validation: best mean validation loss, in nat, if any.
        errors: on the held-out pairs.
        far: by number of points, on larger clouds.
        seconds: training and testing.
        curve: (step, training loss) along the way.
    """

    cell: Cell
    parameters: int
    learning_rate: float
    status: str
    message: str
    validation: float | None
    errors: Errors
    far: dict[int, Errors]
    seconds: float
    curve: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class Interval:
    """A mean over seeds with its 95 % interval (Student's t); both ends are None with fewer than two seeds."""

    mean: float
    low: float | None
    high: float | None
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval:
        """Take the interval of some values.

        >>> Interval.of([1.0, 2.0, 3.0]).mean
        2.0
        """
        from scipy.stats import t

        mean = float(np.mean(values))
        if len(values) < 2:
            return cls(mean, None, None, len(values))
        half = float(t.ppf(0.975, len(values) - 1)) * float(np.std(values, ddof=1)) / math.sqrt(len(values))
        return cls(mean, mean - half, mean + half, len(values))


@dataclass(frozen=True)
class Summary:
    """The runs of one group over seeds.

    Attributes:
        kind, width, layers, epsilon, training_size, parameters: the group.
        mean, largest: of the held-out W1.
        far_mean, far_largest: the same on larger clouds, by number of points.
        worst: largest of all, over pairs and seeds.
        diverged: runs that diverged; they count with the weights they fell back to.
    """

    kind: Kind
    width: int
    layers: int
    epsilon: float
    training_size: int
    parameters: int
    mean: Interval
    largest: Interval
    far_mean: dict[int, Interval]
    far_largest: dict[int, Interval]
    worst: float
    diverged: int


@dataclass(frozen=True)
class ExperimentResult:
    """Finished runs of an experiment, whole or in part.

    Attributes:
        config: what was asked for.
        rows: what is done.
        rates: (group, learning rate, validation loss or None if it diverged) of every trial in the choice of rates.
        environment: versions and threads.
        seconds: spent in all.
    """

    config: ExperimentConfig
    rows: tuple[Row, ...] = ()
    rates: tuple[tuple[tuple[Any, ...], float, float | None], ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def complete(self) -> bool:
        """Whether every run is there."""
        return {row.cell for row in self.rows} == set(self.config.cells())

    def summaries(self) -> list[Summary]:
        """Return each group over its seeds, in the order of the runs."""
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for row in self.rows:
            groups.setdefault(row.cell.group, []).append(row)
        found = []
        for rows in groups.values():
            cell = rows[0].cell
            points = sorted(set.intersection(*(set(row.far) for row in rows)))
            found.append(
                Summary(
                    kind=cell.kind,
                    width=cell.width,
                    layers=cell.layers,
                    epsilon=cell.epsilon,
                    training_size=cell.training_size,
                    parameters=rows[0].parameters,
                    mean=Interval.of([row.errors.mean for row in rows]),
                    largest=Interval.of([row.errors.largest for row in rows]),
                    far_mean={n: Interval.of([row.far[n].mean for row in rows]) for n in points},
                    far_largest={n: Interval.of([row.far[n].largest for row in rows]) for n in points},
                    worst=max(row.errors.largest for row in rows),
                    diverged=sum(row.status == "diverged" for row in rows),
                )
            )
        return found

    def ratios(self, over: Kind = "sinkhorn", kind: Kind = "softmax") -> list[tuple[Cell, Interval]]:
        """Return how many times the mean W1 of one kind is that of another, paired by size, ε, pairs and seed.

        The interval is taken on the logarithm. The cell of each entry names the group (its seed is the first).
        """
        rows = {(row.cell.kind, *row.cell.group[1:], row.cell.seed): row for row in self.rows}
        groups: dict[tuple[Any, ...], list[tuple[Cell, float]]] = {}
        for row in self.rows:
            cell = row.cell
            other = rows.get((kind, *cell.group[1:], cell.seed))
            if cell.kind == over and other is not None and row.errors.mean > 0 and other.errors.mean > 0:
                groups.setdefault(cell.group, []).append((cell, math.log(other.errors.mean / row.errors.mean)))
        found = []
        for pairs in groups.values():
            logs = Interval.of([value for _, value in pairs])
            low = None if logs.low is None else math.exp(logs.low)
            high = None if logs.high is None else math.exp(logs.high)
            found.append((pairs[0][0], Interval(math.exp(logs.mean), low, high, logs.count)))
        return found

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values, with the command that makes them."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "command": self.config.command,
            "complete": self.complete,
            "config": self.config.as_dict(),
            "environment": self.environment,
            "seconds": self.seconds,
            "rates": [
                {"group": list(group), "learning_rate": rate, "validation": loss} for group, rate, loss in self.rates
            ],
            "rows": [asdict(row) for row in self.rows],
        }

    def save(self, path: str | Path) -> None:
        """Write the result as JSON, atomically."""
        write_json(path, self.as_dict())


def write_json(path: str | Path, values: dict[str, Any]) -> None:
    """Write plain values as JSON, atomically; the folder is made where it is missing."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(values, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=target.parent, prefix=f".{target.name}.", suffix=".part", delete=False
    ) as file:
        file.write(text)
    os.chmod(file.name, 0o644)
    os.replace(file.name, target)


def load_result(path: str | Path) -> ExperimentResult:
    """Read a stored result.

    Raises:
        ValueError: no such file, or not such a result.
    """
    source = Path(path)
    try:
        if source.stat().st_size > 64 * 2**20:
            raise ValueError("larger than 64 MiB")
        data = json.loads(source.read_text(encoding="utf-8"))
        if data.get("format") != FORMAT or data.get("version") != VERSION:
            raise ValueError(f"format {data.get('format')!r:.60}, version {data.get('version')!r:.20}")
        rows = tuple(
            Row(
                **{
                    **row,
                    "cell": Cell(**row["cell"]),
                    "errors": Errors(**row["errors"]),
                    "far": {int(points): Errors(**errors) for points, errors in row["far"].items()},
                    "curve": _tuples(row["curve"]),
                }
            )
            for row in data["rows"]
        )
        return ExperimentResult(
            config=ExperimentConfig.from_dict(data["config"]),
            rows=rows,
            rates=tuple((_tuples(one["group"]), one["learning_rate"], one["validation"]) for one in data["rates"]),
            environment=dict(data["environment"]),
            seconds=float(data["seconds"]),
        )
    except (OSError, KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise ValueError(f"experiment: {source.name!r} is not a stored result ({error!s:.160})") from error


def stored_results() -> dict[str, ExperimentResult]:
    """Return the results that come with the package, by the name of their file."""
    from sinkviz.resources import ROOT

    folder = ROOT / "approximation"
    return {path.stem: load_result(path) for path in sorted(folder.glob("*.json"))} if folder.is_dir() else {}


def preset(name: str, system: str = "moment-rotation") -> ExperimentConfig:
    """Return a ready configuration for one system.

    "live" is done in under a minute on two cores; "comparison" sets Sinkhorn against softmax at one size; "capacity",
    "epsilon", "data" and "points" each walk one axis.

    Raises:
        ValueError: an unknown preset or system.
    """
    whole = ExperimentConfig(system, epsilons=(get_system(system).epsilon,))
    short = replace(whole, steps=800, search_steps=150, training_sizes=(4096,))
    presets = {
        "live": replace(
            whole,
            sizes=((16, 1),),
            training_sizes=(1024,),
            seeds=(0, 1),
            steps=200,
            learning_rates=(5e-3,),
            held_out=40,
            validation=32,
            far_points=(32,),
            far_pairs=5,
        ),
        "capacity": replace(
            whole,
            kinds=("sinkhorn", "independent"),
            sizes=((8, 1), (16, 2), (32, 2), (48, 3)),
            far_points=(64, 128),
            far_pairs=4,
        ),
        "comparison": short,
        "epsilon": replace(short, sizes=((16, 2),), epsilons=(0.05, 0.1, 0.2, 0.5)),
        "data": replace(short, sizes=((16, 2),), training_sizes=(64, 512, 4096)),
        "points": replace(short, far_points=(32, 48, 64, 96, 128), far_pairs=6),
    }
    if name not in presets:
        raise ValueError(f"preset: expected one of {', '.join(presets)}, got {name!r}")
    return presets[name]


@dataclass(frozen=True)
class ExperimentProgress:
    """One report of a running experiment.

    Attributes:
        done, total: finished runs and all.
        label: what is going on.
        training: last report of the training that is under way, if one is.
        result: what stands so far.
        status: "running", "finished" or "stopped".
        share: part of the whole that is done, 0 to 1, trials of learning rates included.
        seconds: spent so far.
    """

    done: int
    total: int
    label: str
    training: Progress | None
    result: ExperimentResult
    status: Literal["running", "finished", "stopped"]
    share: float
    seconds: float

    @property
    def seconds_left(self) -> float | None:
        """Estimate of the time to the end, once there is something to go by."""
        return self.seconds * (1 - self.share) / self.share if self.share > 0.01 else None


def measure_errors(model: SinkhornTransformer | None, pairs: Pairs) -> Errors:
    """Return W1 between a model's plans and the target plans of pairs; None stands for the independent coupling."""
    upper, lower, width, unconverged = [], [], 0.0, 0
    for k in range(len(pairs)):
        x, a, y, b, target = pairs.pair(k)
        if model is None:
            plan = np.outer(a, b)
        else:
            with torch.no_grad():
                source = torch.from_numpy(x).float(), torch.from_numpy(a)
                result = model(*source, torch.from_numpy(y).float(), torch.from_numpy(b))
            unconverged += not result.converged
            plan = result.plan.double().numpy()
        distance = coupling_distance(plan, target, x, y)
        upper.append(distance.upper)
        lower.append(distance.lower)
        width = max(width, distance.width)
    return Errors(float(np.mean(upper)), max(upper), max(lower), width, len(pairs), unconverged)


class Experiment:
    """An experiment that reports, stops after any training step, and goes on where it stopped.

    Args:
        config: what to run.
        result: an earlier result of the same configuration; its runs are not made again.
        folder: where a stopped training is kept (`run.safetensors`) and finished models go, if anywhere.

    Raises:
        ValueError: a result of another configuration.

    Example:
        >>> config = ExperimentConfig("rotation", kinds=("independent",), held_out=5)
        >>> [report.status for report in Experiment(config).run()][-1]
        'finished'
    """

    def __init__(
        self,
        config: ExperimentConfig,
        *,
        result: ExperimentResult | None = None,
        folder: str | Path | None = None,
    ) -> None:
        if result is not None and result.config != config:
            raise ValueError("experiment: the earlier result belongs to another configuration")
        self.config = config
        self.system: CouplingSystem = get_system(config.system)
        self.folder = Path(folder) if folder is not None else None
        self.rows: list[Row] = list(result.rows) if result else []
        self.rates: list[tuple[tuple[Any, ...], float, float | None]] = list(result.rates) if result else []
        self.seconds = result.seconds if result else 0.0
        self.models: dict[Cell, SinkhornTransformer] = {}
        self._stop = False
        self._trainer: tuple[Cell, float, Trainer] | None = None
        self._since = time.perf_counter()
        self._data: dict[tuple[int | float, ...], Pairs] = {}

    def stop(self) -> None:
        """Ask the experiment to stop at the next report; may be called from another thread."""
        self._stop = True
        if self._trainer is not None:
            self._trainer[2].stop()

    def result(self) -> ExperimentResult:
        """Return what stands so far."""
        environment = {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "threads": str(torch.get_num_threads()),
            "machine": platform.machine(),
        }
        return ExperimentResult(self.config, tuple(self.rows), tuple(self.rates), environment, self.seconds)

    def _pairs(self, role: int, count: int, sizes: tuple[int, int], epsilon: float, seed: int = 0) -> Pairs:
        key = (role, count, *sizes, epsilon, seed)
        if key not in self._data:
            # Roles keep training, validation and test pairs apart for every seed.
            self._data[key] = self.system.sample(count, sizes, seed=10 * seed + role, epsilon=epsilon)
        return self._data[key]

    def _training(self, cell: Cell) -> Pairs:
        # The larger training sets begin with the smaller ones: only their size differs.
        largest = max(self.config.training_sizes)
        whole = self._pairs(1, largest, self.config.train_points, cell.epsilon, cell.seed)
        return whole if cell.training_size == largest else whole.take(torch.arange(cell.training_size))

    def _trainer_of(self, cell: Cell, rate: float, steps: int) -> Trainer:
        config = self.config
        state = torch.random.get_rng_state()
        torch.manual_seed(cell.seed)
        model = SinkhornTransformer(
            self.system.dim,
            width=cell.width,
            layers=cell.layers,
            heads=math.gcd(cell.width, config.heads),
            out=config.out,
            epsilon=cell.epsilon,
            normalisation="softmax" if cell.kind == "softmax" else "sinkhorn",
        )
        torch.random.set_rng_state(state)
        training = TrainingConfig(
            steps=steps,
            batch=config.batch,
            learning_rate=rate,
            warmup=min(100, max(1, steps // 10)),
            seed=cell.seed,
            report_every=min(25, steps),
            validate_every=max(1, min(250, steps // 4)),
        )
        validation = self._pairs(2, config.validation, config.train_points, cell.epsilon)
        return Trainer(model, self._training(cell), training, validation=validation)

    def _work(self) -> tuple[float, float]:
        """Return training steps done and planned, the measure of the share."""
        config = self.config
        trained = [cell for cell in config.cells() if cell.kind != "independent"]
        groups = {cell.group for cell in trained}
        searched = len(config.learning_rates) > 1
        total = len(trained) * config.steps + searched * len(groups) * len(config.learning_rates) * config.search_steps
        done = sum(row.cell.kind != "independent" for row in self.rows) * config.steps
        done += len(self.rates) * config.search_steps
        if self._trainer is not None:
            done += self._trainer[2].step
        return float(done), float(max(1, total))

    def _report(
        self,
        label: str,
        training: Progress | None = None,
        status: Literal["running", "finished", "stopped"] = "running",
    ) -> ExperimentProgress:
        now = time.perf_counter()
        self.seconds, self._since = self.seconds + now - self._since, now
        done, total = self._work()
        return ExperimentProgress(
            done=len(self.rows),
            total=len(self.config.cells()),
            label=label,
            training=training,
            result=self.result(),
            status=status,
            share=1.0 if status == "finished" else min(1.0, done / total),
            seconds=self.seconds,
        )

    def _train(self, cell: Cell, rate: float, steps: int, label: str) -> Iterator[ExperimentProgress]:
        """Train one model into self._trainer; on return its status says how it ended."""
        held = self._trainer
        if held is None or held[:2] != (cell, rate) or held[2].config.steps != steps:
            self._trainer = (cell, rate, self._resumed(cell, rate, steps) or self._trainer_of(cell, rate, steps))
        assert self._trainer is not None
        for progress in self._trainer[2].run():
            yield self._report(label, progress)
            if self._stop:
                self._trainer[2].stop()

    @property
    def _run_file(self) -> Path | None:
        return self.folder / "run.safetensors" if self.folder is not None else None

    def _resumed(self, cell: Cell, rate: float, steps: int) -> Trainer | None:
        path = self._run_file
        if path is None or not path.is_file():
            return None
        fresh = self._trainer_of(cell, rate, steps)
        trainer = Trainer.resume(path, fresh.data, validation=fresh.validation)
        path.unlink()
        same = trainer.config == fresh.config and trainer.model.config == fresh.model.config
        return trainer if same else None

    def run(self) -> Iterator[ExperimentProgress]:
        """Run what is missing, reporting on the way; the last report says "finished" or "stopped"."""
        self._stop = False
        self._since = time.perf_counter()
        config = self.config
        done = {row.cell for row in self.rows}
        for cell in config.cells():
            if cell in done:
                continue
            if self._stop:
                yield self._stopped()
                return
            start = time.perf_counter()
            held_out = self._pairs(3, config.held_out, config.test_points, cell.epsilon)
            far = {n: self._pairs(4, config.far_pairs, (n, n), cell.epsilon) for n in config.far_points}
            if cell.kind == "independent":
                yield self._report(cell.label)
                errors = measure_errors(None, held_out)
                far_errors = {n: measure_errors(None, pairs) for n, pairs in far.items()}
                spent = time.perf_counter() - start
                self.rows.append(Row(cell, 0, 0.0, "finished", "", None, errors, far_errors, spent))
                continue
            for rate in config.learning_rates if len(config.learning_rates) > 1 else ():
                if any(group == cell.group and tried == rate for group, tried, _ in self.rates):
                    continue
                trial = replace(cell, seed=config.seeds[0])
                label = f"choosing the learning rate ({rate:g}): {trial.label}"
                yield from self._train(trial, rate, config.search_steps, label)
                assert self._trainer is not None
                trainer = self._trainer[2]
                if trainer.status == "stopped":
                    yield self._stopped()
                    return
                good = trainer.status != "diverged" and math.isfinite(trainer.best_validation)
                self._trainer = None
                self.rates.append((cell.group, rate, trainer.best_validation if good else None))
            rate = self._best_rate(cell)
            yield from self._train(cell, rate, config.steps, cell.label)
            assert self._trainer is not None
            trainer = self._trainer[2]
            if trainer.status == "stopped":
                yield self._stopped()
                return
            yield self._report(f"testing: {cell.label}")
            self._trainer = None
            self.models[cell] = trainer.model
            errors = measure_errors(trainer.model, held_out)
            far_errors = {n: measure_errors(trainer.model, pairs) for n, pairs in far.items()}
            best = trainer.best_validation
            self.rows.append(
                Row(
                    cell=cell,
                    parameters=trainer.model.parameter_count,
                    learning_rate=rate,
                    status=trainer.status,
                    message=trainer.message,
                    validation=best if math.isfinite(best) else None,
                    errors=errors,
                    far=far_errors,
                    seconds=trainer.seconds,
                    curve=tuple((p.step, p.loss) for p in trainer.history if p.loss is not None),
                )
            )
        yield self._report("finished", status="finished")

    def _best_rate(self, cell: Cell) -> float:
        if len(self.config.learning_rates) == 1:
            return self.config.learning_rates[0]
        tried = [(loss, rate) for group, rate, loss in self.rates if group == cell.group and loss is not None]
        return min(tried)[1] if tried else min(self.config.learning_rates)

    def _stopped(self) -> ExperimentProgress:
        if self._trainer is not None and self._run_file is not None:
            self._trainer[2].save(self._run_file)
        return self._report("stopped; it can be resumed", status="stopped")
