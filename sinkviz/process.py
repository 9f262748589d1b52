"""What a process that sinkviz owns (the app, the command line) decides once, before torch is loaded."""

from __future__ import annotations

import os
import sys


def prepare() -> None:
    """Set the thread policy and keep libraries quiet, unless the environment says otherwise.

    One thread: at this size a second torch thread gains nothing on free cores, and on busy ones small solves
    become up to a hundred times slower. Set OMP_NUM_THREADS to choose another number.
    """
    # torch hands the interpreter lock back at every operation; with Python's 5 ms a thread of small operations waits
    # that long for each of them while the server is busy.
    sys.setswitchinterval(0.0005)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
