"""Do these couplings find the words that people link? Measured on gold alignments, against attention."""

from sinkviz.ui.frame import enter

enter(__file__)

from sinkviz.ui.evidence import page  # noqa: E402

page()
