"""What a Sinkhorn Transformer can learn: coupling systems, experiments, and the four steps of the proof."""

from sinkviz.ui.frame import enter

enter(__file__)

from sinkviz.ui.theorem import page  # noqa: E402

page()
