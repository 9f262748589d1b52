"""Bring your own: points, costs, plans and attention matrices from a file or the clipboard, as Measure or Coupling.

Every reader takes bytes or text, so that a file, an upload and a paste are the same thing. Nothing is unpickled, and
sizes are checked before anything is unpacked.
"""

from __future__ import annotations

import csv
import io
import math
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sinkviz.coupling import Coupling, Mechanism, double_centred
from sinkviz.measure import Measure, validate_weights

Kind = Literal["cost", "plan", "attention"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Matrix = NDArray[np.float64]

MAXIMUM_BYTES = 64 * 2**20
"""Largest file or paste that is read, packed or unpacked."""
MAXIMUM_ENTRIES = 4_000_000
"""Most entries of a matrix: about 2,000 × 2,000."""
MAXIMUM_LABEL = 10_000
"""Longest label, in characters."""
MASS_TOLERANCE = 1e-4
"""How far rows of an attention matrix, or the mass of a plan, may be from 1 (half-precision rounding)."""


@dataclass(frozen=True, eq=False)
class OwnMatrix:
    """A matrix that somebody brought, with what came along.

    Attributes:
        values: shape (n, m), or (…, n, m) for attention of several layers or heads.
        source_labels, target_labels: names of rows and columns, or None.
        source_weights, target_weights: weights, or None.
        kind: what the file says the matrix is, or None where it does not say.
    """

    values: Matrix
    source_labels: tuple[str, ...] | None = None
    target_labels: tuple[str, ...] | None = None
    source_weights: Matrix | None = None
    target_weights: Matrix | None = None
    kind: Kind | None = None


def read_bytes(path: str | Path) -> bytes:
    """Return a file's bytes.

    Raises:
        ValueError: larger than `MAXIMUM_BYTES`.
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:
        data = file.read(MAXIMUM_BYTES + 1)
    if len(data) > MAXIMUM_BYTES:
        raise ValueError(f"{path}: expected at most {MAXIMUM_BYTES // 2**20} MB, got a larger file")
    return data


def decode(data: bytes | str, name: str) -> str:
    """Return text in UTF-8 (with or without a byte order mark).

    Raises:
        ValueError: other bytes, or too many.
    """
    if len(data) > MAXIMUM_BYTES:
        raise ValueError(f"{name}: expected at most {MAXIMUM_BYTES // 2**20} MB, got more")
    if isinstance(data, str):
        return data.removeprefix("\ufeff")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: expected text in UTF-8, got other bytes; save the file as UTF-8") from error


def read_table(data: bytes | str, name: str) -> list[list[str]]:
    """Return the cells of tab-, comma-, semicolon- or blank-separated text, all rows equally long.

    The separator is the one that gives rows of equal length and most numbers.

    Raises:
        ValueError: no cells, rows of different length (the line is named), too many cells.

    >>> read_table("a,b\\n1,2\\n", "own")
    [['a', 'b'], ['1', '2']]
    """
    text = decode(data, name)
    if not text.strip():
        raise ValueError(f"{name}: expected a table of numbers, got an empty text")
    best: list[list[str]] | None = None
    most = -1
    problem: ValueError | None = None
    for separator in (*(mark for mark in "\t,;" if mark in text), None):
        try:
            rows = _split(text, separator, name)
        except ValueError as error:
            problem = problem or error
            continue
        if not rows or (separator is None and problem is not None and len(rows[0]) == 1):
            continue
        numbers = sum(_number(cell) is not None for row in rows for cell in row)
        if numbers > most:
            best, most = rows, numbers
    if best is None:
        raise problem or ValueError(f"{name}: expected a table of numbers, got something else")
    return best


def _split(text: str, separator: str | None, name: str) -> list[list[str]]:
    rows: list[list[str]] = []
    cells = 0

    def add(row: list[str], line: int) -> None:
        nonlocal cells
        if not any(cell.strip() for cell in row):
            return
        if rows and len(row) != len(rows[0]):
            raise ValueError(
                f"{name}: expected {len(rows[0])} cells in every row, got {len(row)} in line {line}; "
                "put a cell that holds the separator in quotes"
            )
        cells += len(row)
        if cells > 2 * MAXIMUM_ENTRIES:
            raise ValueError(f"{name}: expected at most {MAXIMUM_ENTRIES:,} numbers, got more")
        rows.append(row)

    if separator is None:
        for number, line in enumerate(text.split("\n"), start=1):
            add(line.split(), number)
        return rows
    csv.field_size_limit(MAXIMUM_BYTES)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        for row in reader:
            add(row, reader.line_num)
    except csv.Error as error:
        raise ValueError(f"{name}: expected a table, got something else in line {reader.line_num}: {error}") from error
    return rows


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _labels(labels: Sequence[object], count: int, name: str) -> tuple[str, ...]:
    names = tuple(str(label) for label in labels)
    if len(names) != count:
        raise ValueError(f"{name}: expected {count} labels, got {len(names)}")
    for position, label in enumerate(names):
        if len(label) > MAXIMUM_LABEL:
            raise ValueError(f"{name}: expected labels of at most {MAXIMUM_LABEL:,} characters, got {len(label):,}")
        if any("\ud800" <= character <= "\udfff" for character in label):
            raise ValueError(f"{name}: expected whole characters, got half of a surrogate pair in label {position + 1}")
    return names


def _numbers(rows: Sequence[Sequence[str]], name: str, first_row: int, first_column: int) -> Matrix:
    values = np.empty((len(rows), len(rows[0]) if rows else 0))
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            number = _number(cell)
            if number is None:
                raise ValueError(
                    f"{name}: expected a number, got {cell!r:.40} in row {i + first_row}, column {j + first_column}"
                )
            values[i, j] = number
    return values


def read_matrix(data: bytes | str, *, name: str = "matrix") -> OwnMatrix:
    """Read a matrix: CSV, TSV or blank-separated text, or the bytes of an NPZ or NPY file.

    Text: a header row with the target's labels and a first column with the source's labels are taken as such where
    they are no numbers. NPZ: one of the arrays cost, plan or attention (or the only matrix there is), and optionally
    source_labels, target_labels, source_weights, target_weights.

    Args:
        data: what the file or the clipboard holds.
        name: how messages call it.

    Raises:
        ValueError: no matrix, one that is too large, or cells that are no numbers; the place is named.

    Example:
        >>> own = read_matrix("\\tchat\\tchien\\ncat\\t0.9\\t0.1\\ndog\\t0.2\\t0.8\\n")
        >>> own.source_labels, own.values.tolist()
        (('cat', 'dog'), [[0.9, 0.1], [0.2, 0.8]])
    """
    if isinstance(data, bytes) and data[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return _matrix_from_arrays(read_npz(data, name=name), name)
    if isinstance(data, bytes) and data[:6] == b"\x93NUMPY":
        return _matrix_from_arrays({"matrix": _read_npy(io.BytesIO(data), len(data), name)}, name)
    rows = read_table(data, name)
    # A corner that is blank, or any first row or column that is no number, is a line of labels.
    corner = len(rows[0]) > 1 and not rows[0][0].strip()
    header = corner or any(_number(cell) is None for cell in rows[0][1:] or rows[0])
    body = rows[1:] if header else rows
    if not body:
        raise ValueError(f"{name}: expected rows of numbers under the header, got none")
    column = len(body[0]) > 1 and (corner or any(_number(row[0]) is None for row in body))
    values = _numbers([row[column:] for row in body], name, 1 + header, 1 + column)
    return OwnMatrix(
        values=_checked(values, name),
        source_labels=_labels([row[0] for row in body], len(body), f"{name}, first column") if column else None,
        target_labels=_labels(rows[0][column:], values.shape[1], f"{name}, first row") if header else None,
    )


def _checked(values: Matrix, name: str) -> Matrix:
    if values.ndim < 2 or 0 in values.shape:
        raise ValueError(f"{name}: expected a matrix of shape (source, target), got shape {values.shape}")
    if values.size > MAXIMUM_ENTRIES:
        raise ValueError(
            f"{name}: expected at most {MAXIMUM_ENTRIES:,} entries, got {values.size:,}; take words or sentences"
        )
    return np.asarray(values, dtype=np.float64)


def _read_npy(file: Any, length: int, name: str) -> NDArray[Any]:
    """Read one NPY array whose header must not promise more than the file holds."""
    try:
        version = np.lib.format.read_magic(file)
        reader = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
        if reader is None:
            raise ValueError(f"version {version}")
        shape, fortran, dtype = reader(file)
        if dtype.hasobject:
            raise ValueError(f"{name}: expected an array of numbers or strings, got Python objects")
        size = math.prod(shape) * dtype.itemsize
        if size > min(length, MAXIMUM_BYTES):
            raise ValueError(f"{name}: expected an array within its file, got a header that promises {size:,} bytes")
        raw = file.read(size)
        if len(raw) != size:
            raise ValueError(f"{name}: expected {size:,} bytes of numbers, got {len(raw):,}; the file is damaged")
        array: NDArray[Any] = np.frombuffer(raw, dtype=dtype).reshape(shape, order="F" if fortran else "C")
        return array
    except ValueError as error:
        if str(error).startswith(name):
            raise
        raise ValueError(f"{name}: expected an array as NumPy writes it, got something damaged") from error
    except (EOFError, SyntaxError, TypeError, KeyError, OverflowError, zipfile.BadZipFile) as error:
        raise ValueError(f"{name}: expected an array as NumPy writes it, got something damaged") from error


def read_npz(data: bytes, *, name: str = "file") -> dict[str, NDArray[Any]]:
    """Return the arrays of an NPZ file, read without pickle and within `MAXIMUM_BYTES`.

    Raises:
        ValueError: no NPZ file, a damaged one, or one that would unpack to more.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = [entry for entry in archive.infolist() if entry.filename.endswith(".npy")]
            if len(entries) > 64 or sum(entry.file_size for entry in entries) > MAXIMUM_BYTES:
                raise ValueError(f"{name}: expected at most 64 arrays of {MAXIMUM_BYTES // 2**20} MB, got more")
            arrays = {}
            for entry in entries:
                with archive.open(entry) as file:
                    arrays[entry.filename.removesuffix(".npy")] = _read_npy(file, entry.file_size, name)
            return arrays
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise ValueError(f"{name}: expected an NPZ file, got a damaged one") from error
    except ValueError as error:
        if str(error).startswith(name):
            raise
        raise ValueError(f"{name}: expected an NPZ file, got a damaged one") from error
    except Exception as error:  # zlib.error and what the standard library raises for crafted headers
        if type(error).__module__ in ("zlib", "struct", "lzma", "builtins", "zipfile"):
            raise ValueError(f"{name}: expected an NPZ file, got a damaged one") from error
        raise


def _float_array(array: NDArray[Any], name: str) -> Matrix:
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name}: expected numbers, got {array.dtype}")
    return np.asarray(array, dtype=np.float64)


def _matrix_from_arrays(arrays: Mapping[str, NDArray[Any]], name: str) -> OwnMatrix:
    kinds = [kind for kind in KINDS if kind in arrays]
    matrices = [key for key, array in arrays.items() if array.ndim >= 2 and array.dtype.kind in "fiu"]
    if len(kinds) == 1:
        key: str = kinds[0]
    elif "plan" in kinds:  # a file that sinkviz wrote holds the cost too
        key = "plan"
    elif not kinds and len(matrices) == 1:
        key = matrices[0]
    else:
        raise ValueError(
            f"{name}: expected one array named cost, plan or attention, got {', '.join(sorted(arrays)[:10]) or 'none'}"
        )
    values = _checked(_float_array(arrays[key], name), name)
    labels: dict[str, tuple[str, ...] | None] = {}
    weights: dict[str, Matrix | None] = {}
    for side, count in (("source", values.shape[-2]), ("target", values.shape[-1])):
        given = arrays.get(f"{side}_labels")
        if given is not None and given.dtype.kind not in "US":
            raise ValueError(f"{name}: {side}_labels: expected strings, got {given.dtype}")
        labels[side] = None if given is None else _labels(given.ravel().tolist(), count, f"{name}, {side}_labels")
        given = arrays.get(f"{side}_weights")
        weights[side] = None if given is None else _float_array(given, f"{name}, {side}_weights")
    return OwnMatrix(
        values=values,
        source_labels=labels["source"],
        target_labels=labels["target"],
        source_weights=weights["source"],
        target_weights=weights["target"],
        kind=next((kind for kind in KINDS if kind == key), None),
    )


def read_points(data: bytes | str, *, name: str = "points") -> Measure:
    """Read labelled, weighted points as a measure.

    Text: one atom a row. A header may name the columns: "label", "weight", the rest are coordinates. Without a header
    a first column that is no number holds the labels, and weights are uniform. NPZ: arrays points (n, d), and
    optionally labels and weights; NPY: points.

    Raises:
        ValueError: no table, cells that are no numbers, weights that do not fit; the place is named.

    Example:
        >>> read_points("label,weight,x,y\\ncat,3,0,1\\ndog,1,1,0\\n").weights.tolist()
        [0.75, 0.25]
    """
    if isinstance(data, bytes) and data[:2] == b"PK":
        arrays = read_npz(data, name=name)
        if "points" not in arrays:
            raise ValueError(f"{name}: expected an array named points, got {', '.join(sorted(arrays)[:10]) or 'none'}")
        points = _checked(_float_array(arrays["points"], name), name)
        labels = arrays.get("labels")
        weights = arrays.get("weights")
        return Measure.from_points(
            points,
            None if weights is None else _float_array(weights, f"{name}, weights"),
            None if labels is None else _labels(labels.ravel().tolist(), len(points), f"{name}, labels"),
        )
    if isinstance(data, bytes) and data[:6] == b"\x93NUMPY":
        return Measure.from_points(_checked(_float_array(_read_npy(io.BytesIO(data), len(data), name), name), name))
    rows = read_table(data, name)
    names = [cell.strip().lower() for cell in rows[0]]
    header = all(_number(cell) is None for cell in rows[0]) or "weight" in names or "label" in names
    body = rows[1:] if header else rows
    if not body:
        raise ValueError(f"{name}: expected rows of points under the header, got none")
    if header:
        label_column = names.index("label") if "label" in names else None
        weight_column = names.index("weight") if "weight" in names else None
        if label_column is None and any(_number(row[0]) is None for row in body) and weight_column != 0:
            label_column = 0
    else:
        label_column = 0 if any(_number(row[0]) is None for row in body) else None
        weight_column = None
    rest = [k for k in range(len(rows[0])) if k not in (label_column, weight_column)]
    if not rest:
        raise ValueError(f"{name}: expected at least one column of coordinates, got none")
    values = _checked(_numbers([[row[k] for k in rest] for row in body], name, 1 + header, 1), name)
    weights = None
    if weight_column is not None:
        weights = _numbers([[row[weight_column]] for row in body], f"{name}, weight", 1 + header, 1)[:, 0]
    chosen = None if label_column is None else _labels([row[label_column] for row in body], len(body), name)
    return Measure.from_points(values, weights, chosen)


def _biplot(scores: Matrix, a: Matrix, b: Matrix) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return points whose inner products are the double-centred scores: x = U√S, y = V√S of their singular values.

    Forbidden pairs (score −∞) count as the lowest finite score.
    """
    finite = np.isfinite(scores)
    low = float(scores[finite].min()) if finite.any() else 0.0
    centred = double_centred(np.where(finite, scores, low), a, b)
    left, values, right = np.linalg.svd(centred, full_matrices=False)
    rank = max(2, int((values > 1e-7 * max(1e-300, float(values[0]))).sum()))
    rank = min(rank, 64)
    root = np.sqrt(values[:rank])
    source, target = left[:, :rank] * root, right[:rank].T * root
    if source.shape[1] < 2:  # a single row or column: a second axis of zeros keeps the clouds drawable
        source, target = (np.pad(points, ((0, 0), (0, 1))) for points in (source, target))
    return source.astype(np.float32), target.astype(np.float32)


def _measures(
    scores: Matrix,
    a: Matrix,
    b: Matrix,
    source_labels: Sequence[str] | None,
    target_labels: Sequence[str] | None,
) -> tuple[Measure, Measure]:
    source, target = _biplot(scores, a, b)
    return Measure.from_points(source, a, source_labels), Measure.from_points(target, b, target_labels)


def _weights(given: ArrayLike | None, default: Matrix, name: str) -> Matrix:
    if given is None:
        return validate_weights(default, len(default))
    try:
        return validate_weights(given, len(default))
    except ValueError as error:
        raise ValueError(f"{name} {error}") from None


def coupling_from_cost(
    cost: ArrayLike,
    *,
    source_labels: Sequence[str] | None = None,
    target_labels: Sequence[str] | None = None,
    source_weights: ArrayLike | None = None,
    target_weights: ArrayLike | None = None,
    **options: Any,
) -> Coupling:
    """Couple under a cost matrix of one's own.

    Args:
        cost: C, shape (n, m); +inf forbids a pair.
        source_labels, target_labels: names; numbers if None.
        source_weights, target_weights: uniform if None.
        **options: mechanism, epsilon, epsilon_unit, relaxation, null_cost as in `sinkviz.couple`.

    Returns:
        The coupling. The points of its measures are those whose inner products are −C up to row and column offsets
        (from the singular values of the double-centred cost), so that every picture works.

    Raises:
        ValueError: not a matrix of numbers, labels or weights that do not fit, options out of range.

    Example:
        >>> coupling_from_cost([[0, 1], [1, 0]], mechanism="exact").plan.tolist()
        [[0.5, 0.0], [0.0, 0.5]]
    """
    from sinkviz.pipeline import couple_cost

    matrix = _matrix(cost, "cost")
    if np.isnan(matrix).any() or (matrix == -np.inf).any():
        i, j = (int(k) for k in np.argwhere(np.isnan(matrix) | (matrix == -np.inf))[0])
        raise ValueError(
            f"cost: expected finite numbers, or inf for a forbidden pair, got {matrix[i, j]} in row {i + 1}, "
            f"column {j + 1}"
        )
    a = _weights(source_weights, np.ones(matrix.shape[0]), "source")
    b = _weights(target_weights, np.ones(matrix.shape[1]), "target")
    source, target = _measures(-matrix, a, b, source_labels, target_labels)
    return couple_cost(matrix, source, target, **options)


def coupling_from_plan(
    plan: ArrayLike,
    *,
    source_labels: Sequence[str] | None = None,
    target_labels: Sequence[str] | None = None,
    source_weights: ArrayLike | None = None,
    target_weights: ArrayLike | None = None,
    mechanism: Mechanism = "sinkhorn",
) -> Coupling:
    """Take a joint law as it stands.

    P = a b exp(−C/ε) with ε = 1, potentials 0 and C = −log P/(a b): the plan is the solution of its own problem, so
    nothing is solved, and moving ε afterwards sharpens or flattens it.

    Args:
        plan: P ≥ 0, shape (n, m), normalised to mass 1.
        source_labels, target_labels: names; numbers if None.
        source_weights, target_weights: weights that the marginals are compared with; the plan's own marginals if None.
        mechanism: what made the plan: "softmax" if its columns are free, else "sinkhorn" or "exact".

    Raises:
        ValueError: not a matrix of numbers ≥ 0 with a positive sum, labels or weights that do not fit.

    Example:
        >>> coupling_from_plan([[2, 0], [1, 1]]).received.tolist()
        [0.75, 0.25]
    """
    matrix = _matrix(plan, "plan")
    if not np.isfinite(matrix).all() or (matrix < 0).any():
        i, j = (int(k) for k in np.argwhere(~(np.isfinite(matrix) & (matrix >= 0)))[0])
        raise ValueError(f"plan: expected finite numbers >= 0, got {matrix[i, j]} in row {i + 1}, column {j + 1}")
    largest = float(matrix.max())
    if largest <= 0:
        raise ValueError("plan: expected some mass, got only zeros")
    matrix = matrix / largest
    matrix = matrix / matrix.sum()
    a = _weights(source_weights, matrix.sum(1), "source")
    b = _weights(target_weights, matrix.sum(0), "target")
    if mechanism not in ("sinkhorn", "softmax", "exact"):
        raise ValueError(f'mechanism: expected "sinkhorn", "softmax" or "exact" for a plan, got {mechanism!r:.40}')
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = np.log(matrix) - np.log(a)[:, None] - np.log(b)[None, :]
    scores[matrix <= 0] = -np.inf
    if np.isposinf(scores).any() or np.isnan(scores).any():
        i, j = (int(k) for k in np.argwhere(np.isposinf(scores) | np.isnan(scores))[0])
        raise ValueError(f"plan: expected no mass at atoms of weight 0, got some in row {i + 1}, column {j + 1}")
    source, target = _measures(scores, a, b, source_labels, target_labels)
    from sinkviz.pipeline import epsilon_scale

    scale, _ = epsilon_scale(-scores, a, b)
    off_rows = float(np.abs(matrix.sum(1) - a).sum())
    off_columns = 0.0 if mechanism == "softmax" else float(np.abs(matrix.sum(0) - b).sum())
    return Coupling(
        plan=matrix,
        source=source,
        target=target,
        cost=-scores,
        cost_scale=scale,
        epsilon=1.0,
        f=np.zeros(len(a)),
        g=np.zeros(len(b)),
        mechanism="softmax" if mechanism == "softmax" else "sinkhorn",
        status="closed_form" if max(off_rows, off_columns) <= MASS_TOLERANCE else "stalled",
        residual=max(off_rows, off_columns),
        iterations=0,
    )


def coupling_from_attention(
    attention: ArrayLike,
    *,
    layer: int | None = None,
    head: int | None = None,
    source_labels: Sequence[str] | None = None,
    target_labels: Sequence[str] | None = None,
    source_weights: ArrayLike | None = None,
    target_weights: ArrayLike | None = None,
) -> Coupling:
    """Take attention weights of one's own model as the joint law P_ij = a_i A_ij.

    Args:
        attention: A ≥ 0 whose rows sum to 1, shape (n, m), (heads, n, m) or (layers, heads, n, m).
        layer, head: which one to take, from 0; None takes the mean over all of them.
        source_labels, target_labels: names; numbers if None.
        source_weights, target_weights: weights a of the queries and b of the keys; uniform if None.

    Returns:
        A coupling of mechanism "softmax". Its cost −log(A_ij / b_j) at ε = 1 gives back A, so
        `couple_cost(c.cost, c.source, c.target, epsilon=1, epsilon_unit="absolute")` is the Sinkhorn coupling on the
        same scores.

    Raises:
        ValueError: rows that do not sum to 1, a layer or head that does not exist, labels or weights that do not fit.

    Example:
        >>> coupling_from_attention([[[1.0, 0.0], [0.5, 0.5]]], head=0).received.tolist()
        [0.75, 0.25]
    """
    try:
        values = np.asarray(attention, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"attention: expected a matrix of numbers, got {attention!r:.60}") from error
    if not 2 <= values.ndim <= 4:
        raise ValueError(
            f"attention: expected shape (n, m), (heads, n, m) or (layers, heads, n, m), got {values.shape}"
        )
    for name, chosen, axes in (("layer", layer, 4), ("head", head, 3)):
        if values.ndim < axes:
            if chosen is not None:
                raise ValueError(f"{name}: the attention has no {name}s, shape {values.shape}; leave it out")
            continue
        count = values.shape[0]
        if chosen is None:
            values = values.mean(axis=0)
        elif 0 <= chosen < count:
            values = values[chosen]
        else:
            raise ValueError(f"{name}: expected a number from 0 to {count - 1}, got {chosen}")
    matrix = _matrix(values, "attention")
    if not np.isfinite(matrix).all() or (matrix < 0).any():
        i, j = (int(k) for k in np.argwhere(~(np.isfinite(matrix) & (matrix >= 0)))[0])
        raise ValueError(f"attention: expected finite numbers >= 0, got {matrix[i, j]} in row {i + 1}, column {j + 1}")
    sums = matrix.sum(axis=1)
    off = np.abs(sums - 1) > max(MASS_TOLERANCE, 1e-5 * matrix.shape[1])
    if off.any():
        row = int(np.flatnonzero(off)[0])
        raise ValueError(
            f"attention: expected rows that sum to 1, got {sums[row]:.6g} in row {row + 1}; "
            "for a joint law use kind plan, for raw scores use kind cost with their negative"
        )
    a = _weights(source_weights, np.ones(matrix.shape[0]), "source")
    return coupling_from_plan(
        a[:, None] * (matrix / sums[:, None]),
        source_labels=source_labels,
        target_labels=target_labels,
        source_weights=a,
        target_weights=np.ones(matrix.shape[1]) if target_weights is None else target_weights,
        mechanism="softmax",
    )


def _matrix(values: ArrayLike, name: str) -> Matrix:
    try:
        matrix = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: expected a matrix of numbers, got {values!r:.60}") from error
    if matrix.ndim != 2:
        raise ValueError(f"{name}: expected a matrix of shape (source, target), got shape {matrix.shape}")
    return _checked(matrix, name)


def couple_own(
    own: OwnMatrix, kind: Kind | None = None, *, layer: int | None = None, head: int | None = None, **options: Any
) -> Coupling:
    """Return the coupling of a matrix that was read.

    Args:
        own: as `read_matrix` returns it.
        kind: "cost", "plan" or "attention"; None = what the file says.
        layer, head: of attention, from 0.
        **options: of `coupling_from_cost`, for a cost.

    Raises:
        ValueError: a kind that is not known; the rest as for that kind.
    """
    chosen = kind or own.kind
    if chosen not in KINDS:
        raise ValueError(f"kind: expected one of {', '.join(KINDS)} (the file does not say), got {chosen!r:.40}")
    if chosen != "cost" and options:
        raise ValueError(f"options: {', '.join(sorted(options))} belong to a cost, got a {chosen}")
    if chosen != "attention" and (layer is not None or head is not None):
        raise ValueError(f"layer and head belong to attention, got a {chosen}")
    common: dict[str, Any] = {
        "source_labels": own.source_labels,
        "target_labels": own.target_labels,
        "source_weights": own.source_weights,
        "target_weights": own.target_weights,
    }
    if chosen == "cost":
        return coupling_from_cost(own.values, **common, **options)
    if chosen == "attention":
        return coupling_from_attention(own.values, layer=layer, head=head, **common)
    return coupling_from_plan(own.values, **common)
