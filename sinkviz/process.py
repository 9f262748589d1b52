"""What a process that sinkviz owns (the app, the command line) decides once, before torch is loaded."""

from __future__ import annotations

import os


def prepare() -> None:
    """Set the thread policy and keep libraries quiet, unless the environment says otherwise.

    One thread: at this size a second torch thread gains nothing on free cores, and on busy ones small solves
    become up to a hundred times slower. Set OMP_NUM_THREADS to choose another number.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
