"""Train the small text models that are shipped: measure encoders that learn a contextual coupling of real sentences.

The coupling system on token embeddings (MiniLM, layer 3): F(μ, ν) = S_{c,ε}(μ, ν) with
c(x, y) = −⟨u(x − m(μ)), u(y − m(ν))⟩, u(z) = z/|z|: cosines after each sentence is centred at its own mean. Where the
mean lies is a property of the whole sentence, so no token can be matched on its own.

    python benchmarks/approximation_text_models.py PAIRS.json --out assets/models

PAIRS.json is a list of objects with "source" and "target" texts (Edinburgh++ train has that form). The models
add what they learn to the raw cosine (`residual`), so they start at that baseline. One part in seven
is held out; figures are printed and kept in the files.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from sinkviz.process import prepare

prepare()

import torch  # noqa: E402
from torch.nn.functional import normalize  # noqa: E402

import sinkviz  # noqa: E402
from sinkviz import transport  # noqa: E402
from sinkviz.transformer import Pairs, SinkhornTransformer, TrainingConfig, pad, train  # noqa: E402
from sinkviz.transformer.training import Progress  # noqa: E402

EPSILON = 0.1
TITLES = {
    "sinkhorn": "Sinkhorn Transformer on text (centred cosines)",
    "softmax": "The same encoders, softmax rows, on text",
    "sinkformer": "Sinkformer on text (centred cosines)",
}


def couple(x: torch.Tensor, a: torch.Tensor, y: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return F(μ, ν) for a batch, float64."""
    x, y = x.double(), y.double()
    x = normalize(x - (a[..., None] * x).sum(-2, keepdim=True), dim=-1)
    y = normalize(y - (b[..., None] * y).sum(-2, keepdim=True), dim=-1)
    with torch.no_grad():
        result = transport.sinkhorn(-x @ y.transpose(-1, -2), a, b, epsilon=EPSILON, tolerance=1e-8)
    return result.plan


def embed_pairs(path: Path, longest: int) -> Pairs:
    """Embed the pairs of a file, all tokens at equal weight; pairs with a longer text are left out and counted."""
    records = json.loads(path.read_text(encoding="utf-8"))
    sides: list[list[torch.Tensor]] = [[], []]
    for record in records:
        clouds = [torch.from_numpy(sinkviz.embed(record[side]).points.copy()) for side in ("source", "target")]
        if max(len(cloud) for cloud in clouds) <= longest:
            for side, cloud in zip(sides, clouds, strict=True):
                side.append(cloud)
    print(f"{len(sides[0])} of {len(records)} pairs have at most {longest} tokens a side")
    x, a = pad(sides[0], [torch.full((len(cloud),), 1 / len(cloud)).double() for cloud in sides[0]])
    y, b = pad(sides[1], [torch.full((len(cloud),), 1 / len(cloud)).double() for cloud in sides[1]])
    plans = [couple(x[k : k + 64], a[k : k + 64], y[k : k + 64], b[k : k + 64]) for k in range(0, len(x), 64)]
    return Pairs(x, a, y, b, torch.cat(plans))


@torch.no_grad()
def missed(plan: torch.Tensor, target: torch.Tensor) -> float:
    """Return the mean total variation ½‖P − F‖₁."""
    return float((plan - target).abs().sum((1, 2)).mean() / 2)


def main() -> None:
    """Train and write the models."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("--out", type=Path, default=Path("assets/models"))
    parser.add_argument("--kinds", nargs="+", default=["sinkhorn", "sinkformer"], choices=list(TITLES))
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--longest", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    whole = embed_pairs(args.pairs, args.longest)
    index = torch.arange(len(whole))
    held_out, learned = whole.take(index[index % 7 == 0]), whole.take(index[index % 7 > 0])
    independent = held_out.a[:, :, None] * held_out.b[:, None, :]
    cosines = -normalize(held_out.x.double(), dim=-1) @ normalize(held_out.y.double(), dim=-1).transpose(1, 2)
    with torch.no_grad():
        raw = transport.sinkhorn(cosines, held_out.a, held_out.b, epsilon=EPSILON).plan
    baseline = {"independent": missed(independent, held_out.plan), "raw cosine": missed(raw, held_out.plan)}
    print("mass misplaced on held-out pairs:", {name: round(value, 4) for name, value in baseline.items()})
    for kind in args.kinds:
        torch.manual_seed(args.seed)
        model = SinkhornTransformer(
            whole.x.shape[-1],
            width=64,
            layers=2,
            heads=4,
            out=64,
            epsilon=EPSILON,
            normalisation=kind,
            residual=True,
        )
        config = TrainingConfig(steps=args.steps, batch=32, learning_rate=2e-3, seed=args.seed)

        def show(progress: Progress) -> None:
            loss = "no loss" if progress.loss is None else f"loss {progress.loss:.4f}"
            print(f"  step {progress.step}: {loss}, {progress.seconds:.0f} s", flush=True)

        run = train(model, learned, config, validation=held_out, progress=show)
        with torch.no_grad():
            plan = model(held_out.x, held_out.a, held_out.y, held_out.b).plan
        figure = missed(plan.double(), held_out.plan)
        print(f"{kind}: {run.status}, mass misplaced {figure:.4f}, {run.seconds:.0f} s")
        about = {
            "title": TITLES[kind],
            "input": "token embeddings of all-MiniLM-L6-v2, layer 3",
            "learned": "entropic coupling of cosines after centring each sentence, epsilon 0.1",
            "data": f"{args.pairs.name}: {len(learned)} pairs learned, {len(held_out)} held out",
            "command": f"python benchmarks/approximation_text_models.py {args.pairs.name} --kinds {kind} "
            f"--steps {args.steps} --longest {args.longest} --seed {args.seed}",
            "mass_misplaced": {**baseline, kind: figure},
            "status": run.status,
        }
        model.save(args.out / f"text-{kind}.safetensors", about=about)


if __name__ == "__main__":
    main()
