"""The live view: one canvas and SVG component for the Compare page, notebooks and one offline HTML file.

Python solves the ε-path once and sends potentials; the browser rebuilds every plan from them, at every frame, and
solves by itself what is not on the path (edited weights, relaxed columns, an ε between two grid points at rest).

**Payload** (`sinkviz.view.payload`, version 1). ``b"SKVZ"``, version and length of the header (two little-endian
uint32), a JSON header, then raw little-endian arrays, each aligned to 8 bytes and listed in ``header["arrays"]`` as
name, type, offset and length:

=========================  ========  ============  =========================================================
name                       type      length        meaning
=========================  ========  ============  =========================================================
cost                       float32   n·m           C, row by row; +inf forbids a pair
potentials                 float32   E·m           g over the grid (E·(m+1) with a null partner); may be absent
source.spans               int32     2·n           atoms as [start, end) in UTF-16 units
source.words               int32     n             word of each atom; ``source.word_spans`` lists them
source.sentences           int32     n             sentence of each atom; ``source.sentence_spans`` lists them
source.weights             float64   n             a as embedded (the preset "given")
source.solved_weights      float64   n             a that the potentials belong to, where it differs
source.points              float32   n·k           projected coordinates
source.preset.NAME         float32   n             uniform, length, inverse_frequency
source.flags               uint8     n             1 = punctuation, 2 = stop word
=========================  ========  ============  =========================================================

(and the same for ``target``). f is not sent: the row update gives it, f_i = −ε log Σ_j b_j exp((g_j − C_ij)/ε).
The header also holds ``unit`` (absolute size of ε = 1), ``epsilons``, ``optimum`` (bracket of the exact cost),
``settings``, ``revision``, ``facts``, and two keys: ``texts_key`` names the texts and their cost, ``key`` the problem
that was solved for them.

**Mounting.** ``component_javascript()`` is an ES module whose default export is called with what Streamlit's
components v2 hand over, ``{data, parentElement, setStateValue, …}``; ``data`` is the payload as a Uint8Array. Called
again on the same element it takes new data, a new theme, or nothing; it returns the function that gives everything
back. ::

    view = st.components.v2.component("sinkviz_view", js=component_javascript())
    result = view(key="compare", data=payload.from_path(path, settings=settings), on_settings_change=lambda: None)

**Events.** One state value, ``settings`` (see `sinkviz.view.settings`), set when a gesture ends, never while a dial
moves. Python answers edited weights with a new payload (`chosen_weights` gives the weights); the view keeps what the
user did meanwhile, unless ``revision`` says that the settings come from elsewhere.

**Files.** ``static/*.js`` are plain ES modules, one for each picture, joined by `sinkviz.view.bundle`. ``view.css``,
``offline.html`` and the colours of `sinkviz.figures.palette` travel inside. `sinkviz.view.html` writes the offline file
and the notebook frame.
"""

from sinkviz.view.bundle import component_javascript
from sinkviz.view.html import notebook_html, offline_html
from sinkviz.view.payload import build, from_coupling, from_path, with_settings

__all__ = [
    "build",
    "component_javascript",
    "from_coupling",
    "from_path",
    "notebook_html",
    "offline_html",
    "with_settings",
]
