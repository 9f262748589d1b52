"""The frame of the app: `streamlit run app.py`."""

from sinkviz.process import prepare

prepare()

from sinkviz.ui.frame import run  # noqa: E402

if __name__ == "__main__":  # Processes that this one starts import the file too, and must not draw a page.
    run()
