"""Training a Sinkhorn Transformer: a run that reports, stops, resumes bit for bit, and says when it diverges."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from sinkviz.transformer import checkpoints
from sinkviz.transformer.loss import fenchel_young_loss
from sinkviz.transformer.model import ModelConfig, SinkhornTransformer
from sinkviz.transformer.pairs import Pairs
from sinkviz.transport import SinkhornResult

Status = Literal["running", "finished", "stopped", "early_stopped", "diverged"]
RUN_FORMAT = "sinkviz.TrainingRun"
LossFunction = Callable[[SinkhornResult, Pairs], Tensor]


class PairSource(Protocol):
    """What training reads: something with a length that hands out batches."""

    def __len__(self) -> int:
        """Number of pairs."""

    def take(self, index: Tensor, /) -> Pairs:
        """Return the chosen pairs."""


@dataclass(frozen=True)
class TrainingConfig:
    """How a model is trained: Adam, linear warm-up, cosine decay to 0, clipped gradients.

    Attributes:
        steps: optimiser steps in all.
        batch: pairs in a step.
        learning_rate: at the end of the warm-up.
        warmup: steps from 0 to that rate.
        weight_decay: decoupled (AdamW).
        clip: largest norm of the gradient.
        seed: of the order of the pairs; the caller seeds the model itself.
        report_every: steps between two reports.
        validate_every: steps between two validations, where there is validation data.
        patience: validations without a better one before the run stops early; None = never.

    Raises:
        ValueError: a number out of range.
    """

    steps: int = 2000
    batch: int = 32
    learning_rate: float = 3e-3
    warmup: int = 100
    weight_decay: float = 0.0
    clip: float = 1.0
    seed: int = 0
    report_every: int = 50
    validate_every: int = 250
    patience: int | None = None

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "report_every", "validate_every"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name}: expected a whole number >= 1, got {value!r}")
        for name in ("warmup", "seed"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ValueError(f"{name}: expected a whole number >= 0, got {value!r}")
        for name in ("learning_rate", "clip"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
                raise ValueError(f"{name}: expected a finite number > 0, got {value!r}")
        if not math.isfinite(self.weight_decay) or self.weight_decay < 0:
            raise ValueError(f"weight_decay: expected a finite number >= 0, got {self.weight_decay!r}")
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"patience: expected a whole number >= 1 or None, got {self.patience!r}")

    def rate(self, step: int) -> float:
        """Return the learning rate of one step, counted from 0."""
        if step < self.warmup:
            return self.learning_rate * (step + 1) / self.warmup
        share = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * share))


@dataclass(frozen=True)
class Progress:
    """One report of a training run; every number in it is finite.

    Attributes:
        step, steps: how far it is.
        loss: mean training loss since the last report, in nat; None if no step gave one.
        gradient_norm: mean norm of the gradient before clipping.
        learning_rate: of the last step.
        unconverged: share of solves since the last report that did not converge and were left out.
        validation: mean loss on the validation pairs, if they were looked at in this report and all converged.
        seconds: spent training so far, over all resumed parts.
        status: "running", "finished", "stopped", "early_stopped" or "diverged".
        message: one sentence where the status needs one.
    """

    step: int
    steps: int
    loss: float | None
    gradient_norm: float
    learning_rate: float
    unconverged: float
    validation: float | None
    seconds: float
    status: Status = "running"
    message: str = ""

    @property
    def share(self) -> float:
        """Part of the run that is done, 0 to 1."""
        return self.step / self.steps

    @property
    def seconds_left(self) -> float | None:
        """Estimate of the time to the end, if there is something to go by."""
        return self.seconds * (self.steps - self.step) / self.step if self.step else None


def converged(result: SinkhornResult) -> Tensor:
    """Return which items of a batch converged, as booleans of the batch's shape."""
    return torch.as_tensor(result.converged)


@torch.no_grad()
def evaluate_loss(model: SinkhornTransformer, pairs: PairSource, batch: int = 128) -> float:
    """Return the mean Fenchel–Young loss of a model over pairs, in nat; inf if a solve did not converge."""
    total = 0.0
    for start in range(0, len(pairs), batch):
        part = pairs.take(torch.arange(start, min(start + batch, len(pairs))))
        cost = model.cost_tensor(part.x, part.a, part.y, part.b)
        if not bool(torch.isfinite(cost).all()):
            return math.inf
        result = model.couple(cost, part.a, part.b)
        if not bool(converged(result).all()):
            return math.inf
        losses = fenchel_young_loss(
            cost.to(result.plan.dtype),
            result.plan,
            part.plan,
            part.a,
            part.b,
            epsilon=model.epsilon,
            column_relaxation=model.config.relaxation,
        )
        total += float(losses.sum())
    return total / len(pairs)


class Trainer:
    """A training run.

    It minimises the mean Fenchel–Young loss on converged plans, whose gradient is (π − P)/ε exactly, or any loss of
    the caller through the solver's implicit gradient. Items whose solve did not converge are left out of a step and
    counted. The run ends as "diverged", with a reason, when numbers stop being finite, when most solves of five steps
    in a row do not converge, or when the loss has grown far beyond its start; the model then holds the best weights
    seen, as it does at every other end if there is validation data.

    Everything random is a function of the seed and the step, so a run that is saved, loaded and continued gives the
    same bits as one that never stopped (on one machine and thread count).

    Args:
        model: trained in place.
        data: training pairs.
        config: how.
        validation: pairs for choosing the best weights and for early stopping.
        loss: own loss, (result, batch) ↦ scalar, minimised through the implicit gradient; None = Fenchel–Young.

    Example:
        >>> from sinkviz.approximation import SYSTEMS
        >>> _ = torch.manual_seed(0)
        >>> model = SinkhornTransformer(2, width=8, layers=1, heads=2, out=4)
        >>> trainer = Trainer(model, SYSTEMS["rotation"].sample(64, seed=0), TrainingConfig(steps=4, batch=8))
        >>> [progress.status for progress in trainer.run()]
        ['finished']
    """

    def __init__(
        self,
        model: SinkhornTransformer,
        data: PairSource,
        config: TrainingConfig,
        *,
        validation: PairSource | None = None,
        loss: LossFunction | None = None,
    ) -> None:
        self.model = model
        self.data = data
        self.config = config
        self.validation = validation
        self.loss = loss
        self.step = 0
        self.seconds = 0.0
        self.status: Status = "running"
        self.message = ""
        self.history: list[Progress] = []
        self.best_validation = math.inf
        self._best: dict[str, Tensor] = self._copy()
        self._updates = 0
        self._since_best = 0
        self._first_loss: float | None = None
        self._bad_steps = 0
        self._stop = False
        self._optimiser = torch.optim.AdamW(
            model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay, fused=True
        )

    def _copy(self) -> dict[str, Tensor]:
        return {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}

    def stop(self) -> None:
        """Ask the run to end after the present step; may be called from another thread."""
        self._stop = True

    def _batch(self, step: int) -> Pairs:
        count = len(self.data)
        size = min(self.config.batch, count)
        per_epoch = count // size
        epoch, position = divmod(step, per_epoch)
        generator = torch.Generator().manual_seed(self.config.seed * 1_000_003 + epoch)
        order = torch.randperm(count, generator=generator)
        return self.data.take(order[position * size : (position + 1) * size])

    def _losses(self, batch: Pairs) -> tuple[Tensor, Tensor]:
        """Return the loss to minimise and which items took part."""
        model = self.model
        cost = model.cost_tensor(batch.x, batch.a, batch.y, batch.b)
        dtype = torch.promote_types(cost.dtype, batch.a.dtype)
        if not bool(torch.isfinite(cost).all()):
            return cost.new_tensor(torch.nan), torch.zeros(len(batch), dtype=torch.bool)
        if self.loss is not None:
            result = model.couple(cost, batch.a, batch.b)
            return self.loss(result, batch), converged(result)
        with torch.no_grad():
            result = model.couple(cost.detach(), batch.a, batch.b)
        good = converged(result)
        losses = fenchel_young_loss(
            cost.to(dtype),
            result.plan,
            batch.plan,
            batch.a,
            batch.b,
            epsilon=model.epsilon_tensor,
            column_relaxation=model.config.relaxation,
        )
        return torch.where(good, losses, 0.0).sum() / max(1, int(good.sum())), good

    def _diverged(self, message: str) -> None:
        self.status, self.message = "diverged", message

    def _one_step(self) -> tuple[float | None, float, float]:
        """Take a step; return loss, norm of the gradient and share of solves left out."""
        rate = self.config.rate(self.step)
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        loss, good = self._losses(self._batch(self.step))
        left_out = 1 - float(good.double().mean())
        value = float(loss.detach())
        if not math.isfinite(value):
            self._diverged(f"The loss is no longer a finite number at step {self.step}; lower the learning rate.")
            return None, 0.0, left_out
        self._bad_steps = self._bad_steps + 1 if left_out > 0.5 else 0
        if self._bad_steps >= 5:
            self._diverged(
                f"Most plans of the last five steps up to step {self.step} did not converge: the scores have grown too "
                "large for this epsilon; lower the learning rate."
            )
            return None, 0.0, left_out
        if not bool(good.any()):
            return None, 0.0, left_out
        self._optimiser.zero_grad()
        torch.autograd.backward([loss])
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip))
        if not math.isfinite(norm):
            self._diverged(f"The gradient is no longer finite at step {self.step}; lower the learning rate.")
            return None, 0.0, left_out
        self._optimiser.step()
        self._updates += 1
        return value, norm, left_out

    def _validate(self) -> float | None:
        if self.validation is None:
            return None
        value = evaluate_loss(self.model, self.validation)
        if not math.isfinite(value):
            self.message = f"A validation plan did not converge at step {self.step}; these weights are not kept."
        if value < self.best_validation:
            self.best_validation, self._best, self._since_best = value, self._copy(), 0
        else:
            self._since_best += 1
            if self.config.patience is not None and self._since_best >= self.config.patience:
                self.status = "early_stopped"
                self.message = f"No better validation loss in {self._since_best} looks, up to step {self.step}."
        return value if math.isfinite(value) else None

    def run(self) -> Iterator[Progress]:
        """Train, yielding a report every `report_every` steps and one at the end.

        Leaving the iterator, or `stop`, ends the run after a whole step; calling `run` again goes on from there.
        """
        self._stop = False
        if self.status in ("stopped", "running"):
            self.status, self.message = "running", ""
        else:
            return
        self.model.train()
        losses: list[float] = []
        norms: list[float] = []
        left_out: list[float] = []
        since = time.perf_counter()
        while self.status == "running":
            loss, norm, out = self._one_step()
            left_out.append(out)
            if loss is not None:
                losses.append(loss)
                norms.append(norm)
            if self.status == "running":
                self.step += 1
            validation = None
            last = self.step >= self.config.steps
            if self.status == "running" and (last or self.step % self.config.validate_every == 0):
                validation = self._validate()
            looked = self.validation is not None and (last or self.step % self.config.validate_every == 0)
            report = last or self.step % self.config.report_every == 0 or looked
            if report and losses and self.status == "running":
                mean = sum(losses) / len(losses)
                if self._first_loss is None:
                    self._first_loss = mean
                elif mean > 3 * self._first_loss + 1:
                    self._diverged(
                        f"The loss has grown from {self._first_loss:.3g} to {mean:.3g} at step {self.step}; "
                        "lower the learning rate."
                    )
            if self.status == "running" and last:
                self.status = "finished"
            if self.status == "running" and self._stop:
                self.status, self.message = "stopped", f"Stopped after step {self.step}; it can be resumed."
            if not report and self.status == "running":
                continue
            now = time.perf_counter()
            self.seconds, since = self.seconds + now - since, now
            if self.status in ("finished", "early_stopped", "diverged"):
                self._settle()
            progress = Progress(
                step=self.step,
                steps=self.config.steps,
                loss=sum(losses) / len(losses) if losses else None,
                gradient_norm=sum(norms) / len(norms) if norms else 0.0,
                learning_rate=self.config.rate(max(0, self.step - 1)),
                unconverged=sum(left_out) / len(left_out) if left_out else 0.0,
                validation=validation,
                seconds=self.seconds,
                status=self.status,
                message=self.message,
            )
            self.history.append(progress)
            if self.status == "running":
                self.message = ""
            losses, norms, left_out = [], [], []
            yield progress
            since = time.perf_counter()

    def _settle(self) -> None:
        if self.status == "diverged" or math.isfinite(self.best_validation):
            self.model.load_state_dict(self._best)
        self.model.eval()

    def save(self, path: str | Path) -> None:
        """Write everything that is needed to go on to one safetensors file, atomically."""
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in self._best.items()}
        for name, parameter in self.model.named_parameters():
            state = self._optimiser.state.get(parameter, {})
            for part in ("exp_avg", "exp_avg_sq"):
                tensors[f"{part}.{name}"] = state.get(part, torch.zeros_like(parameter))
        state = {
            "step": self.step,
            "updates": self._updates,
            "seconds": self.seconds,
            "status": self.status,
            "message": self.message,
            "best_validation": self.best_validation if math.isfinite(self.best_validation) else None,
            "since_best": self._since_best,
            "first_loss": self._first_loss,
            "bad_steps": self._bad_steps,
            "training": asdict(self.config),
            "history": [asdict(progress) for progress in self.history],
        }
        metadata = {
            "format": RUN_FORMAT,
            "version": str(checkpoints.VERSION),
            "config": json.dumps(self.model.config.as_dict()),
            "state": json.dumps(state),
        }
        checkpoints.write_tensors(path, tensors, metadata)

    @classmethod
    def resume(
        cls,
        path: str | Path,
        data: PairSource,
        *,
        validation: PairSource | None = None,
        loss: LossFunction | None = None,
    ) -> Trainer:
        """Read a saved run; with the same data it goes on as if it had never stopped.

        Raises:
            ValueError: no such file, damaged, foreign, or not consistent in itself.
        """
        metadata = checkpoints.read_metadata(path, RUN_FORMAT)
        name = Path(path).name
        config = ModelConfig.from_dict(checkpoints.parse_json(metadata.get("config", ""), "configuration", name))
        state = checkpoints.parse_json(metadata.get("state", ""), "state", name)
        model = checkpoints.blank(config)
        shapes = {key: tuple(tensor.shape) for key, tensor in model.state_dict().items()}
        parameters = [key for key, _ in model.named_parameters()]
        expected = {f"{part}.{key}": shape for part in ("model", "best") for key, shape in shapes.items()}
        expected |= {f"{part}.{key}": shapes[key] for part in ("exp_avg", "exp_avg_sq") for key in parameters}
        tensors, _ = checkpoints.read_tensors(path, expected, RUN_FORMAT)
        model.load_state_dict({key: tensors[f"model.{key}"] for key in shapes}, assign=True)
        model.requires_grad_(True)
        try:
            trainer = cls(model, data, TrainingConfig(**state["training"]), validation=validation, loss=loss)
            trainer.history = [Progress(**fields) for fields in state["history"]]
            best = state["best_validation"]
            trainer.best_validation = math.inf if best is None else float(best)
            trainer.step, trainer._updates = int(state["step"]), int(state["updates"])
            trainer.seconds, trainer._since_best = float(state["seconds"]), int(state["since_best"])
            first = state["first_loss"]
            trainer._first_loss = None if first is None else float(first)
            trainer._bad_steps = int(state["bad_steps"])
            if state["status"] not in ("running", "finished", "stopped", "early_stopped", "diverged"):
                raise ValueError(f"status {state['status']!r:.40}")
            trainer.status, trainer.message = state["status"], str(state["message"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"checkpoint: the state of {name!r} is not that of a training run ({error!s:.100})"
            ) from error
        trainer._best = {key: tensors[f"best.{key}"] for key in shapes}
        if trainer._updates:
            for key, parameter in model.named_parameters():
                trainer._optimiser.state[parameter] = {
                    "step": torch.tensor(float(trainer._updates)),
                    "exp_avg": tensors[f"exp_avg.{key}"],
                    "exp_avg_sq": tensors[f"exp_avg_sq.{key}"],
                }
        return trainer


@dataclass(frozen=True)
class TrainingRun:
    """How a training run ended.

    Attributes:
        status, message: "finished", "stopped", "early_stopped" or "diverged", and why.
        step: optimiser steps taken.
        seconds: time spent.
        best_validation: best mean validation loss, in nat; None without validation data.
        history: all reports.
    """

    status: Status
    message: str
    step: int
    seconds: float
    best_validation: float | None
    history: tuple[Progress, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def train(
    model: SinkhornTransformer,
    data: PairSource,
    config: TrainingConfig,
    *,
    validation: PairSource | None = None,
    loss: LossFunction | None = None,
    progress: Callable[[Progress], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> TrainingRun:
    """Train a model in place to the end, or until `cancelled` says so; see `Trainer`.

    Args:
        progress: called with each report. cancelled: asked at each report.
    """
    trainer = Trainer(model, data, config, validation=validation, loss=loss)
    for report in trainer.run():
        if progress is not None:
            progress(report)
        if cancelled is not None and cancelled():
            trainer.stop()
    return summary(trainer)


def summary(trainer: Trainer) -> TrainingRun:
    """Return how a run stands."""
    best = trainer.best_validation
    return TrainingRun(
        status=trainer.status,
        message=trainer.message,
        step=trainer.step,
        seconds=trainer.seconds,
        best_validation=best if math.isfinite(best) else None,
        history=tuple(trainer.history),
    )
