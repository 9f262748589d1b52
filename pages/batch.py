"""Many pairs at once: a table of texts in, a table of numbers out."""

from sinkviz.ui.frame import enter

enter(__file__)

from sinkviz.ui.batch import page  # noqa: E402

page()
