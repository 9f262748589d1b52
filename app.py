"""The frame of the app: `streamlit run app.py`."""

from sinkviz.process import prepare

prepare()

from sinkviz.ui.frame import run  # noqa: E402

run()
