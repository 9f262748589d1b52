"""The live view on a page: solve the ε-path, mount the view, keep its settings, and what stands below it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import urlencode

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from sinkviz.coupling import Coupling
from sinkviz.measure import Measure
from sinkviz.ui import state
from sinkviz.view import settings as view_settings

_SOLVED = "solved_path"
BELOW = {"links": "Strongest links", "space": "Clouds in 3-D", "figures": "Figures to keep"}


def explorer(source: Measure, target: Measure, *, null_cost: float | None) -> None:
    """Draw the live view of two measures and what belongs to it."""
    _explorer(source, target, null_cost)


@st.fragment
def _explorer(source: Measure, target: Measure, null_cost: float | None) -> None:
    ...
