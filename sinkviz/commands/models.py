"""`sinkviz models`: what can be chosen by name."""

from __future__ import annotations

import argparse
import json

from sinkviz.commands.common import table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to a parser."""
    parser.description = "List the embedding models and the trained Sinkhorn Transformers."
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from sinkviz.embedding.registry import DEFAULT_MODEL, external_models_allowed, known_models
    from sinkviz.transformer.registry import available, user_folder

    trained = available()
    if options.json:
        embedding = [
            {
                "name": one.name,
                "layers": one.layers,
                "default_layer": one.default_layer,
                "dimension": one.dimension,
                "positions": one.positions,
                "licence": one.licence,
                "summary": one.summary,
                "default": one.name == DEFAULT_MODEL,
            }
            for one in known_models()
        ]
        encoders = [
            {
                "name": one.name,
                "shipped": one.shipped,
                "dimension": one.config.dim if one.config else None,
                "problem": one.problem,
                "title": one.about.get("title", ""),
            }
            for one in trained.values()
        ]
        print(json.dumps({"embedding": embedding, "trained": encoders}, ensure_ascii=False, indent=2))
        return 0
    rows = [
        [one.name, str(one.layers), str(one.default_layer), str(one.positions), one.licence, one.summary]
        for one in known_models()
    ]
    print("Embedding models")
    print(table(("name", "layers", "default layer", "positions", "licence", ""), rows, left=(0, 4, 5)))
    if external_models_allowed():
        print("Other sentence-transformers models load by hub name or folder (SINKVIZ_ALLOW_MODELS is on).")
    else:
        print("Other models are off; set SINKVIZ_ALLOW_MODELS=1 to load hub names and folders.")
    print("\nTrained Sinkhorn Transformers")
    if trained:
        rows = [
            [
                one.name,
                "shipped" if one.shipped else "own",
                str(one.config.dim) if one.config else "-",
                one.problem or str(one.about.get("title", "")),
            ]
            for one in trained.values()
        ]
        print(table(("name", "from", "dimension", ""), rows, left=(0, 1, 3)))
    else:
        print(f"none; your own belong in {user_folder()}")
    return 0
