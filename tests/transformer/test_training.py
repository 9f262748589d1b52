"""Training: it learns, reports, stops, resumes bit for bit, and says when it diverges."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest
import torch

from sinkviz.approximation import SYSTEMS
from sinkviz.transformer import Pairs, SinkhornTransformer, Trainer, TrainingConfig, evaluate_loss, train
from sinkviz.transport import SinkhornResult

PAIRS = SYSTEMS["rotation"].sample(48, (3, 6), seed=0)
VALIDATION = SYSTEMS["rotation"].sample(16, (3, 6), seed=1)
CONFIG = TrainingConfig(steps=12, batch=8, learning_rate=5e-3, warmup=3, report_every=3, validate_every=4)


def _model(seed: int = 0, **more: object) -> SinkhornTransformer:
    torch.manual_seed(seed)
    return SinkhornTransformer(2, width=8, layers=1, heads=2, out=4, epsilon=0.1, **more)  # type: ignore[arg-type]


def _same(one: SinkhornTransformer, other: SinkhornTransformer) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("normalisation", ["sinkhorn", "softmax", "relaxed", "sinkformer"])
def test_every_variant_learns(normalisation: str) -> None:
    model = _model(normalisation=normalisation, relaxation=0.5 if normalisation == "relaxed" else None)
    before = evaluate_loss(model, VALIDATION)
    run = train(model, PAIRS, dataclasses.replace(CONFIG, steps=80), validation=VALIDATION)
    assert run.status == "finished"
    assert evaluate_loss(model, VALIDATION) < 0.6 * before


def test_reports_are_complete_and_finite() -> None:
    trainer = Trainer(_model(), PAIRS, CONFIG, validation=VALIDATION)
    reports = list(trainer.run())
    assert [report.step for report in reports] == [3, 4, 6, 8, 9, 12]
    assert [report.validation is not None for report in reports] == [False, True, False, True, False, True]
    assert reports[-1].status == "finished"
    assert reports[-1].share == 1
    assert reports == trainer.history
    for report in reports:
        assert report.loss is not None
        assert math.isfinite(report.loss)
        assert report.unconverged == 0
    assert list(trainer.run()) == []


def test_equal_seeds_give_equal_bits_and_the_seed_matters() -> None:
    runs = []
    for seed in (0, 0, 1):
        model = _model()
        train(model, PAIRS, dataclasses.replace(CONFIG, seed=seed))
        runs.append(model)
    assert _same(runs[0], runs[1])
    assert not _same(runs[0], runs[2])


@pytest.mark.parametrize("stop_after", [1, 5, 7])
def test_a_stopped_run_resumes_bit_for_bit(tmp_path: Path, stop_after: int) -> None:
    whole = Trainer(_model(), PAIRS, CONFIG, validation=VALIDATION)
    list(whole.run())
    part = Trainer(_model(), PAIRS, dataclasses.replace(CONFIG, report_every=1), validation=VALIDATION)
    for report in part.run():
        if report.step == stop_after:
            part.stop()
    assert part.status == "stopped"
    assert part.step == stop_after + 1
    part.save(tmp_path / "run.safetensors")
    torch.manual_seed(99)
    again = Trainer.resume(tmp_path / "run.safetensors", PAIRS, validation=VALIDATION)
    assert [report.step for report in again.history] == list(range(1, stop_after + 2))
    list(again.run())
    assert again.status == "finished"
    assert _same(again.model, whole.model)
    assert again.best_validation == whole.best_validation


def test_leaving_the_iterator_and_running_on_gives_the_same_bits() -> None:
    whole, part = Trainer(_model(), PAIRS, CONFIG), Trainer(_model(), PAIRS, CONFIG)
    list(whole.run())
    for report in part.run():
        if report.step == 6:
            break
    list(part.run())
    assert _same(whole.model, part.model)


def test_the_best_weights_are_kept() -> None:
    model = _model()
    trainer = Trainer(model, PAIRS, dataclasses.replace(CONFIG, validate_every=1), validation=VALIDATION)
    best = min(report.validation for report in trainer.run() if report.validation is not None)
    assert trainer.best_validation == best
    assert evaluate_loss(model, VALIDATION) == pytest.approx(best, rel=1e-6)


def test_early_stopping() -> None:
    config = dataclasses.replace(CONFIG, steps=200, learning_rate=1e-12, validate_every=1, patience=2)
    # The first look is always better than none; at a rate of 1e-12 later ones hardly move.
    trainer = Trainer(_model(), PAIRS, config, validation=VALIDATION)
    trainer.best_validation = 0.0
    reports = list(trainer.run())
    assert reports[-1].status == "early_stopped"
    assert reports[-1].step == 2
    assert "No better validation" in reports[-1].message


def test_divergence_is_said_and_the_best_weights_come_back() -> None:
    model = _model()
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    config = dataclasses.replace(CONFIG, steps=400, learning_rate=1e4, clip=1e9, warmup=0)
    reports = list(Trainer(model, PAIRS, config).run())
    assert reports[-1].status == "diverged"
    assert "learning rate" in reports[-1].message
    for report in reports:
        assert report.loss is None or math.isfinite(report.loss)
    assert all(torch.equal(tensor, start[name]) for name, tensor in model.state_dict().items())


def test_unconverged_items_take_no_part(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _model()
    original = SinkhornTransformer.couple

    class Half:
        def __init__(self, result: SinkhornResult) -> None:
            self.plan = result.plan.clone()
            self.plan[0] = 7.0  # garbage that would spoil the step
            self.converged = torch.arange(len(result.plan)) > 0

    monkeypatch.setattr(SinkhornTransformer, "couple", lambda self, *args: Half(original(self, *args)))
    reports = list(Trainer(model, PAIRS, CONFIG).run())
    assert reports[-1].status == "finished"
    assert reports[-1].unconverged == pytest.approx(1 / 8)
    assert reports[-1].loss is not None
    assert reports[-1].loss < 5


def test_runs_that_never_converge_end(monkeypatch: pytest.MonkeyPatch) -> None:
    original = SinkhornTransformer.couple

    class Never:
        def __init__(self, result: SinkhornResult) -> None:
            self.plan, self.converged = result.plan, torch.zeros(len(result.plan), dtype=torch.bool)

    monkeypatch.setattr(SinkhornTransformer, "couple", lambda self, *args: Never(original(self, *args)))
    reports = list(Trainer(_model(), PAIRS, CONFIG).run())
    assert reports[-1].status == "diverged"
    assert "did not converge" in reports[-1].message
    assert reports[-1].step == 4


def test_a_loss_of_ones_own_goes_through_the_implicit_gradient() -> None:
    def squares(result: SinkhornResult, batch: Pairs) -> torch.Tensor:
        return (result.plan - batch.plan).square().sum() * 100

    model = _model()
    reports = list(Trainer(model, PAIRS, dataclasses.replace(CONFIG, steps=30), loss=squares).run())
    assert reports[0].loss is not None
    assert reports[-1].loss is not None
    assert reports[-1].loss < 0.8 * reports[0].loss


def test_a_learned_epsilon_stays_positive_and_moves() -> None:
    model = _model(learn_epsilon=True)
    train(model, PAIRS, CONFIG)
    assert model.epsilon > 0
    assert model.epsilon != pytest.approx(0.1, rel=1e-6)


def test_damaged_runs_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    trainer = Trainer(_model(), PAIRS, CONFIG)
    trainer.save(path)
    data = path.read_bytes()
    for wrong in (
        data[:50],
        data.replace(b"updates", b"updatex"),
        data.replace(b'\\"step\\": 0', b'\\"step\\": x'),
        b"",
    ):
        path.write_bytes(wrong)
        with pytest.raises(ValueError, match="checkpoint"):
            Trainer.resume(path, PAIRS)
    _model().save(path)
    with pytest.raises(ValueError, match="TrainingRun"):
        Trainer.resume(path, PAIRS)


@pytest.mark.parametrize(
    "wrong",
    [{"steps": 0}, {"learning_rate": math.nan}, {"clip": 0}, {"warmup": -1}, {"patience": 0}, {"weight_decay": -1.0}],
)
def test_configurations_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        TrainingConfig(**wrong)  # type: ignore[arg-type]


def test_the_rate_warms_up_and_decays_to_zero() -> None:
    config = TrainingConfig(steps=100, warmup=10, learning_rate=1.0)
    rates = [config.rate(step) for step in range(101)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == pytest.approx(1.0)
    assert rates[100] == pytest.approx(0.0)


def test_pairs_are_checked() -> None:
    with pytest.raises(ValueError, match="plan"):
        Pairs(PAIRS.x, PAIRS.a, PAIRS.y, PAIRS.b, PAIRS.plan[:, :2])
