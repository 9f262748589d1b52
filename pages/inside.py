"""The way of two texts through the Sinkhorn Transformer, step by step."""

from sinkviz.ui.frame import enter

enter(__file__)

from sinkviz.ui.inside import page  # noqa: E402

page()
