"""Two texts, their coupling, and softmax attention on the same scores."""

from sinkviz.ui.frame import enter

enter(__file__)

from sinkviz.ui.compare import page  # noqa: E402

page()
