"""From the scores or couplings of two texts to word links.

Everything starts from *shares*: s_ij ∈ [0, 1] says how much of what words i and j give and receive they exchange,
the geometric mean of the share of the row and the share of the column,

    s_ij = √( P_ij / Σ_j' P_ij' · P_ij / Σ_i' P_i'j )

with mass that goes to a null partner counted in both sums. For softmax attention in both directions this is the
geometric mean of the two attention weights; for attention in one direction it is the weight itself.

Arrays may have leading dimensions; rows and columns that do not exist (ragged batches) have share 0.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sinkviz.alignment.gold import WordLink
from sinkviz.coupling import Coupling

Rule = Literal["argmax", "threshold", "mutual", "grown", "null", "beats-null"]
RULES: tuple[Rule, ...] = ("argmax", "threshold", "mutual", "grown", "null", "beats-null")
NULL_RULES: tuple[Rule, ...] = ("null", "beats-null")
"""Rules that need no threshold, but mass without a partner."""
Mask = NDArray[np.bool_]


def share_matrix(
    plan: ArrayLike, null_source: ArrayLike | None = None, null_target: ArrayLike | None = None
) -> NDArray[np.float64]:
    """Return s_ij = P_ij / √(row sum · column sum) of plans (…, n, m), mass to the null partners included in the sums.

    Args:
        plan: P ≥ 0, shape (…, n, m).
        null_source, null_target: mass of each row and each column without a partner, (…, n) and (…, m); 0 if None.

    >>> share_matrix([[0.5, 0.0], [0.25, 0.25]]).round(3).tolist()
    [[0.816, 0.0], [0.408, 0.707]]
    """
    mass = np.asarray(plan, dtype=np.float64)
    rows, columns = mass.sum(-1), mass.sum(-2)
    if null_source is not None:
        rows = rows + np.asarray(null_source, dtype=np.float64)
    if null_target is not None:
        columns = columns + np.asarray(null_target, dtype=np.float64)
    # Two square roots: the product of two tiny sums would underflow.
    root = np.sqrt(rows)[..., :, None] * np.sqrt(columns)[..., None, :]
    return np.asarray(np.divide(mass, root, out=np.zeros_like(mass), where=root > 0))


def mutual_argmax(scores: ArrayLike) -> Mask:
    """Mark the pairs that are the largest of their row and of their column, shape (…, n, m).

    Of equal scores the first counts, so that each row and each column has one mark at most. −inf is never marked.

    >>> mutual_argmax([[0.9, 0.8], [0.7, 0.1]]).tolist()
    [[True, False], [False, False]]
    """
    table = np.asarray(scores, dtype=np.float64)
    marks = np.zeros(table.shape, dtype=bool)
    if table.size == 0:
        return marks
    row_best = table.argmax(-1)
    column_best = table.argmax(-2)
    rows = np.arange(table.shape[-2])
    agree = np.take_along_axis(column_best, row_best, axis=-1) == rows
    np.put_along_axis(marks, row_best[..., None], agree[..., None], axis=-1)
    return np.asarray(marks & (table > -np.inf))


def grow(core: Mask, candidates: Mask) -> Mask:
    """Add to the core, again and again, the candidates beside a link: same word on one side, next word on the other.

    A word that stands for several ("ten o'clock" – "10") gets its other links this way, while a candidate far from
    any link is left out. A form of grow-diag (Koehn, Och & Marcu 2003, section 4.5) without its diagonal steps.

    >>> core = np.array([[True, False, False], [False, False, False]])
    >>> grow(core, np.array([[False, True, False], [False, False, True]])).astype(int).tolist()
    [[1, 1, 0], [0, 0, 0]]
    """
    grown = np.array(core, dtype=bool)
    while True:
        beside = np.zeros_like(grown)
        beside[..., 1:, :] |= grown[..., :-1, :]
        beside[..., :-1, :] |= grown[..., 1:, :]
        beside[..., :, 1:] |= grown[..., :, :-1]
        beside[..., :, :-1] |= grown[..., :, 1:]
        new = beside & candidates & ~grown
        if not new.any():
            return grown
        grown |= new


def beats_null(plan: ArrayLike, null_source: ArrayLike, null_target: ArrayLike) -> Mask:
    """Mark the pairs with more mass than the null partner gets from their row, and more than it gives their column.

    >>> beats_null([[0.4, 0.1]], [0.2], [0.3, 0.0]).tolist()
    [[True, False]]
    """
    mass = np.asarray(plan, dtype=np.float64)
    return np.asarray((mass > np.asarray(null_source)[..., :, None]) & (mass > np.asarray(null_target)[..., None, :]))


def choose(
    shares: NDArray[np.float64],
    rule: Rule,
    threshold: float = 0.0,
    growth: float | None = None,
    *,
    mutual: Mask | None = None,
    null: Mask | None = None,
) -> Mask:
    """Mark the links that a rule takes from shares (…, n, m).

    Args:
        shares: in [0, 1], or cosines.
        rule: "argmax" (the largest of its row), "threshold" (above the threshold), "mutual" (the largest of its row
            and of its column, and above the threshold), "grown" (mutual, then neighbours above `growth`), "null"
            (largest of row and column, and more mass than the null partner has in both), "beats-null" (more mass than
            the null partner has in its row and in its column; a word may have many partners).
        threshold: share that a link must exceed; the null rules need none.
        growth: share that a neighbour must exceed; for "grown" only.
        mutual: `mutual_argmax(shares)`, if it is known.
        null: what `beats_null` says; for the null rules only.

    Raises:
        ValueError: an unknown rule, or what it needs is missing.
    """
    if rule not in RULES:
        raise ValueError(f"rule: expected one of {', '.join(RULES)}, got {rule!r}")
    if (growth is None) != (rule != "grown"):
        raise ValueError(f'growth: give a share with rule="grown" and with no other, got {growth} with "{rule}"')
    if (null is None) != (rule not in NULL_RULES):
        raise ValueError(
            f"rule: {' and '.join(NULL_RULES)} need mass without a partner (a coupling with a null partner), and no "
            f'other rule does; got rule "{rule}"'
        )
    above = np.asarray(shares > threshold)
    if rule == "threshold":
        return above
    if rule == "argmax":
        marks = np.zeros(shares.shape, dtype=bool)
        np.put_along_axis(marks, shares.argmax(-1)[..., None], True, axis=-1)
        return np.asarray(marks & above)
    if rule == "beats-null":
        return np.array(null)
    best = mutual_argmax(shares) if mutual is None else mutual
    if null is not None:
        return np.asarray(best & null)
    if growth is None:
        return np.asarray(best & above)
    return grow(best & above, np.asarray(shares > growth))


def to_links(mask: Mask) -> list[WordLink]:
    """Return the marked pairs (i, j) of a mask (n, m), in reading order."""
    return [(int(i), int(j)) for i, j in np.argwhere(mask)]


def links_from_coupling(
    coupling: Coupling, *, rule: Rule = "mutual", threshold: float = 0.0, growth: float | None = None
) -> list[WordLink]:
    """Return the word links that a rule takes from a coupling, shown by words first if its atoms are tokens.

    Args:
        coupling: any coupling of tokens or words; the null rules need mechanism "partial", or "softmax" with a null
            partner.
        rule, threshold, growth: see `choose`; the threshold is a share (see the top of this module).

    Returns:
        (i, j): word i of `coupling.source.word_spans` with word j of `coupling.target.word_spans`.

    Raises:
        ValueError: a coupling of sentences, a threshold outside [0, 1], an unknown rule.

    >>> from sinkviz.measure import Measure
    >>> from sinkviz.pipeline import couple
    >>> x = Measure.from_points([[1.0, 0.0], [0.0, 1.0]], labels=["cat", "dog"])
    >>> links_from_coupling(couple(x, x, mechanism="exact"))
    [(0, 0), (1, 1)]
    """
    for name, value in (("threshold", threshold), ("growth", growth)):
        if value is not None and not 0 <= value <= 1:
            raise ValueError(f"{name}: expected a share from 0 to 1, got {value}")
    words = coupling.words()
    null = None
    if rule in NULL_RULES:
        if coupling.null_cost is None:
            raise ValueError(
                f'rule: "{rule}" needs a coupling with a null partner, got mechanism "{coupling.mechanism}" without; '
                "give couple() a null_cost"
            )
        null = beats_null(words.plan, words.null_source, words.null_target)
    shares = share_matrix(words.plan, words.null_source, words.null_target)
    return to_links(choose(shares, rule, threshold, growth, null=null))
