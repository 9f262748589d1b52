"""Many pairs at once: a table of texts in, a table of numbers out, in ragged batches that can be stopped and resumed.

A table is cut into blocks of 256 rows by position. A block is the unit of everything: it is embedded, solved, written
and, with several workers or Ray, sent elsewhere as a whole. So a row's numbers do not depend on who computed it or on
how often the work was interrupted.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sinkviz.coupling import Coupling
from sinkviz.measure import Measure
from sinkviz.settings import CouplingSettings
from sinkviz.text import validate_text

if TYPE_CHECKING:
    from sinkviz.transport import SinkhornResult

Engine = Literal["local", "ray"]
ENGINES: tuple[Engine, ...] = get_args(Engine)
Text = str | tuple[str, ...]
Progress = Callable[[int, int], None]

BLOCK = 256
"""Rows of a block."""
MAXIMUM_BYTES = 512 * 2**20
MAXIMUM_ROWS = 1_000_000
MAXIMUM_ENTRIES = 4_000_000
"""Most pairs of atoms in one row of the table."""
BATCH_ENTRIES = 1 << 18
"""Padded pairs of atoms that are solved together: bounds the memory."""
TABLE_FORMATS = (".csv", ".tsv", ".jsonl", ".parquet")
DEAREST = 3
_PARTIAL = ".partial.jsonl"


# --- the table ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One row of a table that was read.

    Attributes:
        line: its line in the file (for Parquet its row), counted from 1.
        source, target: the texts, or words between blanks where gold links number them; "" in a bad row.
        gold: gold links i-j, ipj of the row, or None.
        problem: why the row cannot be used; "" if it can.
    """

    line: int
    source: Text = ""
    target: Text = ""
    gold: str | None = None
    problem: str = ""


@dataclass(frozen=True, eq=False)
class PairTable:
    """The rows of a table, good and bad, in the order of the file.

    Attributes:
        name: what to call it.
        rows: the rows.
        columns: the columns that the file has.
    """

    name: str
    rows: tuple[Row, ...]
    columns: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def bad(self) -> tuple[Row, ...]:
        """The rows that cannot be used."""
        return tuple(row for row in self.rows if row.problem)

    @property
    def fingerprint(self) -> str:
        """A digest of all rows, so that unfinished results are never continued with another table."""
        digest = hashlib.sha256()
        for row in self.rows:
            digest.update(json.dumps([row.line, row.source, row.target, row.gold, row.problem]).encode())
        return digest.hexdigest()


def table_columns(data: bytes, name: str) -> list[str]:
    """Return the names of a table's columns, for a choice on a page.

    Raises:
        ValueError: as `read_pairs`.
    """
    suffix = _suffix(name)
    if suffix == ".parquet":
        return _parquet_columns(data, name)
    text = _decoded(data, name)
    if suffix == ".jsonl":
        for line in text.splitlines():
            try:
                record = json.loads(line)
            except (json.JSONDecodeError, RecursionError):
                continue
            if isinstance(record, dict):
                return [str(key) for key in record]
        raise ValueError(f"{name}: expected one JSON object a line, got none")
    head = next(_csv_rows(text, "\t" if suffix == ".tsv" else ","), None)
    if head is None:
        raise ValueError(f"{name}: expected a header with the names of the columns, got an empty file")
    return head[1]


def read_pairs(
    data: bytes | str | Path,
    *,
    name: str | None = None,
    source: str | None = None,
    target: str | None = None,
    gold: str | None = None,
    maximum_rows: int = MAXIMUM_ROWS,
) -> PairTable:
    """Read a table of pairs: CSV, TSV, JSON lines or Parquet, told by the ending of its name.

    Args:
        data: the bytes of the table, or the path of a file.
        name: its name; needed with bytes.
        source, target: names of the columns with the texts; "source" and "target" if None, or the first two.
        gold: name of a column with gold links (i-j sure, ipj possible, from 0); then words stand between blanks.
        maximum_rows: most rows.

    Returns:
        The table. A row that cannot be read (missing cell, broken line, a text that cannot be measured) is there with
        its line number and its problem.

    Raises:
        ValueError: an unknown ending, an unreadable file, a column that does not exist, too many rows.

    Example:
        >>> table = read_pairs(b"source,target\\na cat,eine Katze\\nalone\\n", name="pairs.csv")
        >>> [(row.line, row.source, row.problem) for row in table.rows][1]
        (3, '', 'expected 2 cells, got 1')
    """
    if isinstance(data, Path) or (isinstance(data, str) and name is None):
        name = name or str(data)
        with open(data, "rb") as file:
            data = file.read(MAXIMUM_BYTES + 1)
    if name is None:
        raise ValueError("name: expected the name of the table, whose ending says what it is")
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogatepass")
    if len(data) > MAXIMUM_BYTES:
        raise ValueError(f"{name}: expected at most {MAXIMUM_BYTES // 2**20} MB, got more; split it")
    suffix = _suffix(name)
    columns = table_columns(data, name)
    chosen = _chosen(columns, source, target, gold, name)
    if suffix == ".parquet":
        records = _parquet_records(data, name, [column for column in chosen if column is not None], maximum_rows)
    elif suffix == ".jsonl":
        records = _json_records(_decoded(data, name))
    else:
        records = _csv_records(_decoded(data, name), "\t" if suffix == ".tsv" else ",", columns)
    rows: list[Row] = []
    for line, record, problem in records:
        if len(rows) == maximum_rows:
            raise ValueError(f"{name}: expected at most {maximum_rows:,} rows, got more; split the table")
        rows.append(Row(line, problem=problem) if problem else _row(line, record, chosen))
    if not rows:
        raise ValueError(f"{name}: expected at least one row of texts, got none")
    return PairTable(Path(name).name, tuple(rows), tuple(columns))


def pair_table(
    pairs: Iterable[Sequence[str]], *, name: str = "pairs", columns: Sequence[str] = ("source", "target")
) -> PairTable:
    """Return a table of pairs that are at hand: (source, target) or (source, target, gold links).

    >>> len(pair_table([("a cat", "a dog")]))
    1
    """
    chosen = ("source", "target", "gold")
    rows = [
        _row(number, dict(zip(chosen, pair, strict=False)), ("source", "target", "gold" if len(pair) > 2 else None))
        for number, pair in enumerate(pairs, start=1)
    ]
    if not rows:
        raise ValueError("pairs: expected at least one, got none")
    return PairTable(name, tuple(rows), tuple(columns))


def _suffix(name: str) -> str:
    suffix = Path(name).suffix.lower()
    suffix = {".ndjson": ".jsonl", ".tab": ".tsv", ".pq": ".parquet"}.get(suffix, suffix)
    if suffix not in TABLE_FORMATS:
        raise ValueError(
            f"{name}: expected a name that ends in {', '.join(TABLE_FORMATS)}, got {suffix or 'no ending'}"
        )
    return suffix


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{name}, line {line}: expected text in UTF-8, got other bytes; save the file as UTF-8"
        ) from error


def _chosen(
    columns: Sequence[str], source: str | None, target: str | None, gold: str | None, name: str
) -> tuple[str, str, str | None]:
    def find(wanted: str | None, default: str, position: int) -> str:
        if wanted is None:
            if default in columns:
                return default
            if len(columns) <= position:
                raise ValueError(
                    f"{name}: expected columns source and target, got {', '.join(columns)[:200] or 'none'}"
                )
            return columns[position]
        if wanted not in columns:
            raise ValueError(f"{name}: expected one of the columns {', '.join(columns)[:200]}, got {wanted!r:.60}")
        return wanted

    duplicates = {column for column in columns if list(columns).count(column) > 1}
    if duplicates:
        raise ValueError(
            f"{name}: expected columns of different names, got {sorted(duplicates)[0]!r:.60} more than once"
        )
    return find(source, "source", 0), find(target, "target", 1), None if gold is None else find(gold, gold, 0)


Record = tuple[int, Mapping[str, Any], str]


def _csv_rows(text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(MAXIMUM_BYTES)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    start = 1
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield start, [f"\0{error}"]
            start = reader.line_num + 1
            continue
        if cells:
            yield start, cells
        start = reader.line_num + 1


def _csv_records(text: str, separator: str, columns: Sequence[str]) -> Iterator[Record]:
    for line, cells in islice(_csv_rows(text, separator), 1, None):
        if len(cells) == 1 and cells[0].startswith("\0"):
            yield line, {}, f"expected a row of cells, got something else ({cells[0][1:]})"
        elif len(cells) != len(columns):
            yield line, {}, f"expected {len(columns)} cells, got {len(cells)}"
        else:
            yield line, dict(zip(columns, cells, strict=True)), ""


def _json_records(text: str) -> Iterator[Record]:
    for line, content in enumerate(text.split("\n"), start=1):
        if not content.strip():
            continue
        try:
            record = json.loads(content)
        except (ValueError, RecursionError):
            yield line, {}, "expected a JSON object, got something damaged"
            continue
        if isinstance(record, dict):
            yield line, record, ""
        else:
            yield line, {}, f"expected a JSON object, got {type(record).__name__}"


def _parquet(data: bytes, name: str) -> Any:
    import pyarrow
    import pyarrow.parquet

    try:
        return pyarrow.parquet.ParquetFile(io.BytesIO(data))
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise ValueError(f"{name}: expected a Parquet file, got a damaged or another one") from error


def _parquet_columns(data: bytes, name: str) -> list[str]:
    return [str(column) for column in _parquet(data, name).schema_arrow.names]


def _parquet_records(data: bytes, name: str, columns: Sequence[str], maximum_rows: int) -> Iterator[Record]:
    import pyarrow

    file = _parquet(data, name)
    # The sizes that the file claims, before anything is unpacked.
    size = sum(file.metadata.row_group(k).total_byte_size for k in range(file.metadata.num_row_groups))
    if file.metadata.num_rows > maximum_rows or size > 4 * MAXIMUM_BYTES:
        raise ValueError(
            f"{name}: expected at most {maximum_rows:,} rows and {4 * MAXIMUM_BYTES // 2**20:,} MB, got "
            f"{file.metadata.num_rows:,} rows and {size / 2**20:,.0f} MB; split the table"
        )
    number = 0
    try:
        for batch in file.iter_batches(batch_size=1024, columns=list(columns)):
            for record in batch.to_pylist():
                number += 1
                yield number, record, ""
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{name}: expected a Parquet file, got one that is damaged after row {number}") from error


def _row(line: int, record: Mapping[str, Any], columns: tuple[str, str, str | None]) -> Row:
    texts: list[Text] = []
    gold: str | None = None
    try:
        if columns[2] is not None:
            links = record.get(columns[2])
            if not isinstance(links, str):
                raise ValueError(
                    f"{columns[2]}: expected gold links, got {'nothing' if links is None else type(links).__name__}"
                )
            gold = links
        for column, side in zip(columns[:2], ("source", "target"), strict=True):
            value = record.get(column)
            if value is None:
                raise ValueError(f"{column}: expected a text, got nothing")
            if isinstance(value, list) and all(isinstance(word, str) for word in value):
                validate_text(" ".join(value), name=side)
                texts.append(tuple(value))
            else:
                text = validate_text(value, name=column)
                texts.append(text if gold is None else tuple(text.split()))
        if gold is not None:
            from sinkviz.alignment.gold import GoldPair, parse_links

            sure, possible = parse_links(gold)
            GoldPair(tuple(texts[0]), tuple(texts[1]), sure, possible)
    except ValueError as error:
        return Row(line, problem=str(error))
    return Row(line, texts[0], texts[1], gold)


# --- the results --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BatchRow:
    """The numbers of one row.

    Attributes:
        line: line of the table, from 1.
        status: of the solver, or "error".
        problem: why there are no numbers; "" if there are.
        source_atoms, target_atoms: sizes of the measures.
        transport_cost: ⟨C, P⟩ in units of the cost.
        mutual_information: of the coupling, in nat.
        mean_partners: effective partners of a source atom.
        attention_distance: total variation between what softmax attention on the same scores and ε gives the target's
            atoms and their weights: the share of attention's mass that misses.
        epsilon, cost_scale: absolute ε and its unit.
        residual: of the solver.
        self_cost: mean transport cost of source and target each with itself, under the same settings.
        shuffled_cost: transport cost of the source with the target of another row of its block.
        likeness: (r − transport_cost) / (r − self_cost), where r is the mean shuffled_cost of the block: 0 = like a
            random pair, 1 = like a text with itself.
        dearest: the source atoms that pay most, as (label, price), dearest first.
        precision, recall, f1, aer: of the word links against the gold ones.
    """

    line: int
    status: str
    problem: str = ""
    source_atoms: int | None = None
    target_atoms: int | None = None
    transport_cost: float | None = None
    mutual_information: float | None = None
    mean_partners: float | None = None
    attention_distance: float | None = None
    epsilon: float | None = None
    cost_scale: float | None = None
    residual: float | None = None
    self_cost: float | None = None
    shuffled_cost: float | None = None
    likeness: float | None = None
    dearest: tuple[tuple[str, float], ...] = ()
    precision: float | None = None
    recall: float | None = None
    f1: float | None = None
    aer: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the row as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> BatchRow:
        """Return the row that `as_json` wrote."""
        given = {**values, "dearest": tuple((str(label), float(price)) for label, price in values["dearest"])}
        return cls(**given)


RESULT_COLUMNS = tuple(entry.name for entry in fields(BatchRow))


@dataclass(frozen=True)
class BatchSettings:
    """How a table is computed.

    Attributes:
        coupling: model, unit, mechanism and ε.
        baselines: compute self_cost, shuffled_cost and likeness; four solves a row instead of one.
        seed: of the shuffled pairs.

    Raises:
        ValueError: a seed that is not a whole number from 0 to 2³² − 1.
    """

    coupling: CouplingSettings = field(default_factory=CouplingSettings)
    baselines: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if type(self.seed) is not int or not 0 <= self.seed < 2**32:
            raise ValueError(f"seed: expected a whole number from 0 to 4294967295, got {self.seed!r:.40}")

    def as_json(self) -> dict[str, Any]:
        """Return the settings as JSON values."""
        return {"coupling": self.coupling.as_json(), "baselines": self.baselines, "seed": self.seed}


@dataclass(frozen=True)
class BatchReport:
    """How a batch went.

    Attributes:
        rows: rows of the table.
        done: rows with a result, bad ones included.
        bad: rows without numbers.
        resumed: rows that were there already.
        not_converged: rows whose solve stopped early.
        seconds: wall time of this run.
        finished: whether every row is there and the result was written.
        path: the result, or the unfinished file.
    """

    rows: int
    done: int
    bad: int
    resumed: int
    not_converged: int
    seconds: float
    finished: bool
    path: str


class Stages:
    """Seconds of processor time that each stage took, for benchmarks."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Count what happens inside to a stage."""
        start = time.process_time()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.process_time() - start


# --- solving ------------------------------------------------------------------------------------------------------


def couple_many(pairs: Sequence[tuple[Measure, Measure]], settings: CouplingSettings | None = None) -> list[Coupling]:
    """Couple many pairs of measures: the same as `sinkviz.couple` one by one, in ragged batches sorted by size.

    Args:
        pairs: source and target of each.
        settings: mechanism, ε and encoder; the rest plays no part.

    Raises:
        ValueError: as `sinkviz.couple`.

    Example:
        >>> x = Measure.from_points([[1.0, 0.0], [0.0, 1.0]])
        >>> [c.status for c in couple_many([(x, x), (x, x)], CouplingSettings(epsilon=0.5))]
        ['converged', 'converged']
    """
    problem = _Problem.of(settings or CouplingSettings(), pairs)
    result: dict[int, Coupling] = dict(problem.alone())
    for group in problem.groups():
        solved = problem.solve(group)
        for place, k in enumerate(group):
            result[k] = problem.coupling(k, solved, place)
    return [result[k] for k in range(len(pairs))]


def transport_costs(pairs: Sequence[tuple[Measure, Measure]], settings: CouplingSettings | None = None) -> list[float]:
    """Return ⟨C, P⟩ of many pairs: the `transport_cost` of `couple_many`, without the couplings around it."""
    problem = _Problem.of(settings or CouplingSettings(), pairs)
    result = {k: coupling.transport_cost for k, coupling in problem.alone()}
    for group in problem.groups():
        solved = problem.solve(group)
        factor = 1.0 if problem.settings.null_cost is None else 2.0
        plans = solved.plan.detach().numpy()
        for place, k in enumerate(group):
            rows, columns = problem.costs[k].shape
            result[k] = factor * float((plans[place, :rows, :columns] * problem.costs[k]).sum())
    return [result[k] for k in range(len(pairs))]


@dataclass(frozen=True, eq=False)
class _Problem:
    """Many pairs with their costs, units of ε and how to solve them."""

    settings: CouplingSettings
    pairs: Sequence[tuple[Measure, Measure]]
    costs: list[NDArray[np.float64]]
    epsilon: float
    unit: str
    encoder: Any
    scales: NDArray[np.float64]

    @classmethod
    def of(cls, settings: CouplingSettings, pairs: Sequence[tuple[Measure, Measure]]) -> _Problem:
        """Compute the costs, and the scale of each."""
        from sinkviz.coupling import DEFAULT_EPSILON

        encoder = settings.solving()["encoder"]
        epsilon = settings.epsilon
        if encoder is None:
            costs = _cosine_costs(pairs)
            unit = settings.epsilon_unit or "scale"
        else:
            computed = [encoder.cost(source, target) for source, target in pairs]
            costs = [cost for cost, _ in computed]
            unit = settings.epsilon_unit or "absolute"
            if epsilon is None and computed and unit == "absolute":
                epsilon = float(computed[0][1])
        if unit == "absolute" and epsilon is None and settings.mechanism != "exact" and pairs:
            raise ValueError('epsilon: give a value when epsilon_unit="absolute" is used')
        scales = np.zeros(len(pairs))
        problem = cls(settings, pairs, costs, DEFAULT_EPSILON if epsilon is None else epsilon, unit, encoder, scales)
        if settings.mechanism != "exact":
            problem._measure_scales()
        return problem

    def _measure_scales(self) -> None:
        import torch

        from sinkviz import transport

        large = [k for k, cost in enumerate(self.costs) if 1 not in cost.shape]
        for group in _groups([self.costs[k].shape for k in large]):
            chosen = [large[k] for k in group]
            padded = _padded([self.costs[k] for k in chosen], [self.pairs[k] for k in chosen], None)
            self.scales[chosen] = transport.cost_scale(*(torch.from_numpy(array) for array in padded)).numpy()

    def alone(self) -> Iterator[tuple[int, Coupling]]:
        """Solve what has no scale (one atom on a side, a constant cost) or is exact, one by one."""
        from sinkviz.pipeline import couple_cost

        settings = self.settings
        options: dict[str, Any] = {
            "mechanism": settings.mechanism,
            "relaxation": settings.relaxation,
            "null_cost": settings.null_cost,
            "epsilon": 0.0 if settings.mechanism == "exact" else self.epsilon,
            "epsilon_unit": self.unit,
        }
        for k in np.flatnonzero(~(self.scales > 0)).tolist():
            yield k, couple_cost(self.costs[k], *self.pairs[k], **options)

    def groups(self) -> Iterator[list[int]]:
        """Return positions of the rest, in groups that are solved together."""
        rest = np.flatnonzero(self.scales > 0).tolist()
        for group in _groups([self.costs[k].shape for k in rest]):
            yield [rest[k] for k in group]

    def units(self, group: Sequence[int]) -> NDArray[np.float64]:
        """Return the unit of ε of each problem."""
        return np.ones(len(group)) if self.unit == "absolute" else self.scales[list(group)]

    def solve(self, group: Sequence[int]) -> SinkhornResult:
        """Solve a group as one padded batch."""
        import torch

        from sinkviz import transport

        settings = self.settings
        padded = _padded([self.costs[k] for k in group], [self.pairs[k] for k in group], settings.null_cost)
        cost, a, b = (torch.from_numpy(array) for array in padded)
        units = self.units(group)
        relaxation: Any = None
        if settings.mechanism == "softmax":
            relaxation = 0.0
        elif settings.mechanism == "relaxed" and settings.relaxation != math.inf:
            relaxation = torch.from_numpy(np.asarray((settings.relaxation or 0.0) * units))
        return transport.sinkhorn(
            cost, a, b, epsilon=torch.from_numpy(self.epsilon * units), column_relaxation=relaxation
        )

    def coupling(self, k: int, solved: SinkhornResult, place: int) -> Coupling:
        """Cut one problem out of a solved batch."""
        settings = self.settings
        unit = 1.0 if self.unit == "absolute" else float(self.scales[k])
        rows, columns = self.costs[k].shape
        plan = solved.plan[place].detach().numpy()
        nulls: dict[str, Any] = {}
        factor = 1.0
        if settings.null_cost is not None:
            factor = 2.0
            nulls = {"null_source": factor * plan[:rows, -1], "null_target": factor * plan[-1, :columns]}
        return Coupling(
            plan=factor * plan[:rows, :columns],
            source=self.pairs[k][0],
            target=self.pairs[k][1],
            cost=self.costs[k],
            cost_scale=float(self.scales[k]),
            epsilon=self.epsilon * unit,
            f=solved.f[place].detach().numpy()[:rows].copy(),
            g=solved.g[place].detach().numpy()[:columns].copy(),
            mechanism=settings.mechanism,
            status=str(np.asarray(solved.status).reshape(-1)[place]),
            residual=factor * float(np.asarray(solved.residual).reshape(-1)[place]),
            iterations=int(np.asarray(solved.iterations).reshape(-1)[place]),
            relaxation=None if settings.relaxation is None else settings.relaxation * unit,
            null_cost=settings.null_cost,
            **nulls,
        )


def _cosine_costs(pairs: Sequence[tuple[Measure, Measure]]) -> list[NDArray[np.float64]]:
    """Return `cosine_cost` of each pair; a measure that occurs in several pairs is normalised once."""
    from sinkviz.pipeline import cosine_cost

    known: dict[int, NDArray[np.float64]] = {}

    def directions(measure: Measure) -> NDArray[np.float64]:
        if id(measure) not in known:
            exact = measure.points.astype(np.float64)
            lengths = np.linalg.norm(exact, axis=1, keepdims=True)
            known[id(measure)] = np.divide(exact, lengths, out=np.zeros_like(exact), where=lengths > 0)
        return known[id(measure)]

    result = []
    for source, target in pairs:
        same = (source.origin.model, source.origin.layer) == (target.origin.model, target.origin.layer)
        if not same or source.dimension != target.dimension:
            result.append(cosine_cost(source, target))  # which says what does not fit
        else:
            result.append(-(directions(source) @ directions(target).T))
    return result


def _padded(
    costs: Sequence[NDArray[np.float64]], pairs: Sequence[tuple[Measure, Measure]], null_cost: float | None
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return costs and weights of ragged problems as one batch; atoms that fill up have weight 0.

    A null partner is the last row and column. Filled-up costs repeat a cost of their own problem: foreign values
    would widen its range.
    """
    count = len(costs)
    extra = 0 if null_cost is None else 1
    n, m = max(cost.shape[0] for cost in costs) + extra, max(cost.shape[1] for cost in costs) + extra
    padded = np.empty((count, n, m))
    a, b = np.zeros((count, n)), np.zeros((count, m))
    for k, (cost, (source, target)) in enumerate(zip(costs, pairs, strict=True)):
        rows, columns = cost.shape
        padded[k] = cost[0, 0]
        if null_cost is not None:
            padded[k, -1, :] = padded[k, :, -1] = null_cost
            padded[k, -1, -1] = 0.0
            a[k, -1] = b[k, -1] = 0.5
        padded[k, :rows, :columns] = cost
        a[k, :rows] = source.weights / (1 + extra)
        b[k, :columns] = target.weights / (1 + extra)
    return padded, a, b


def _groups(shapes: Sequence[tuple[int, ...]]) -> list[list[int]]:
    """Return positions of problems that are solved together: sorted by size, padded entries bounded."""
    order = sorted(range(len(shapes)), key=lambda k: (max(shapes[k]), shapes[k]))
    groups: list[list[int]] = []
    rows = columns = 0
    for k in order:
        n, m = max(rows, shapes[k][0]), max(columns, shapes[k][1])
        if groups and n * m * (len(groups[-1]) + 1) <= BATCH_ENTRIES:
            groups[-1].append(k)
            rows, columns = n, m
        else:
            groups.append([k])
            rows, columns = shapes[k][0], shapes[k][1]
    return groups


# --- one block ----------------------------------------------------------------------------------------------------


def _embed(rows: Sequence[Row], settings: CouplingSettings) -> tuple[list[tuple[Measure, Measure] | None], list[str]]:
    """Return the measures of each row, and its problem where there are none."""
    from sinkviz.embedding import embed_batch

    def texts(chosen: Iterable[Row]) -> list[str | list[str]]:
        return [text if isinstance(text, str) else list(text) for row in chosen for text in (row.source, row.target)]

    problems = [row.problem for row in rows]
    usable = [k for k, row in enumerate(rows) if not row.problem]
    measures: list[tuple[Measure, Measure] | None] = [None] * len(rows)
    options = settings.embedding()
    try:
        every = embed_batch(texts(rows[k] for k in usable), **options)
        found = list(zip(every[::2], every[1::2], strict=True))
    except ValueError:
        # One text that cannot be read fails the whole batch: find it, so that the others get their numbers.
        found = []
        for k in list(usable):
            try:
                one, other = embed_batch(texts([rows[k]]), **options)
                found.append((one, other))
            except ValueError as error:
                problems[k] = str(error)
                usable.remove(k)
    for k, pair in zip(usable, found, strict=True):
        entries = len(pair[0]) * len(pair[1])
        if entries > MAXIMUM_ENTRIES:
            problems[k] = (
                f"expected at most {MAXIMUM_ENTRIES:,} pairs of atoms, got {len(pair[0]):,} × {len(pair[1]):,}; "
                "use a coarser unit"
            )
        else:
            measures[k] = pair
    return measures, problems


def _partners(good: Sequence[int], seed: int, block: int) -> dict[int, int]:
    """Return for each row another one of its block whose target it is paired with: one random cycle."""
    if len(good) < 2:
        return {}
    order = np.random.default_rng([seed, block]).permutation(np.asarray(good)).tolist()
    return dict(zip(order, order[1:] + order[:1], strict=True))


def compute_block(
    rows: Sequence[Row], settings: BatchSettings, *, block: int = 0, stages: Stages | None = None
) -> list[BatchRow]:
    """Return the results of the rows of one block.

    Args:
        rows: up to 256 rows.
        settings: how.
        block: its number, which the shuffled pairs depend on.
        stages: counts the time of "embed", "solve" and "measure".

    Raises:
        ValueError: a model, layer or encoder that does not exist. What is wrong with single rows is in their results.
    """
    from sinkviz.embedding import load_model

    stages = stages or Stages()
    chosen = settings.coupling
    # Wrong settings are an error of the whole batch, before any row is blamed.
    load_model(chosen.model).info.layer(chosen.layer)
    with stages("embed"):
        measures, problems = _embed(rows, chosen)
    good = [k for k, pair in enumerate(measures) if pair is not None]
    pairs = {k: pair for k, pair in enumerate(measures) if pair is not None}
    partners = _partners(good, settings.seed, block) if settings.baselines else {}
    with stages("solve"):
        couplings = dict(zip(good, couple_many([pairs[k] for k in good], chosen), strict=True))
        costs: list[float] = []
        if settings.baselines:
            jobs = [(pairs[k][side], pairs[k][side]) for k in good for side in (0, 1)]
            jobs += [(pairs[k][0], pairs[partner][1]) for k, partner in partners.items()]
            costs = transport_costs(jobs, chosen)
    self_costs: dict[int, float] = {}
    shuffled: dict[int, float] = {}
    results = []
    with stages("measure"):
        if settings.baselines:
            self_costs = {k: (costs[2 * i] + costs[2 * i + 1]) / 2 for i, k in enumerate(good)}
            shuffled = dict(zip(partners, costs[2 * len(good) :], strict=True))
        random_cost = float(np.mean(list(shuffled.values()))) if shuffled else None
        for k, row in enumerate(rows):
            if k not in couplings:
                results.append(BatchRow(row.line, "error", problems[k]))
                continue
            results.append(_measured(row, couplings[k], self_costs.get(k), shuffled.get(k), random_cost))
    return results


def _attention_distance(coupling: Coupling) -> float:
    """Return how much of the mass softmax attention on the same scores puts off the target's weights."""
    a, b = coupling.source.weights, coupling.target.weights
    if coupling.mechanism == "softmax":
        return coupling.received_distance
    epsilon = coupling.epsilon or 0.35 * coupling.cost_scale
    if epsilon <= 0:
        return 0.0
    with np.errstate(divide="ignore"):
        scores = np.log(b) - coupling.cost / epsilon
        if coupling.null_cost is not None:  # attention gets the same null partner
            null = -coupling.null_cost / epsilon
            largest = np.maximum(scores.max(axis=1, keepdims=True), null)
            shares = np.exp(scores - largest)
            shares /= shares.sum(axis=1, keepdims=True) + np.exp(null - largest)
            real = 2 * (a / 2) @ shares
            bids = np.log(b) - coupling.null_cost / epsilon
            top = max(0.0, float(bids.max()))
            rest = np.exp(bids - top) / (np.exp(bids - top).sum() + np.exp(-top))
            return 0.5 * float(np.abs(real + rest - b).sum())
    scores -= scores.max(axis=1, keepdims=True)
    shares = np.exp(scores)
    shares /= shares.sum(axis=1, keepdims=True)
    return 0.5 * float(np.abs(a @ shares - b).sum())


def _measured(
    row: Row, coupling: Coupling, self_cost: float | None, shuffled: float | None, random_cost: float | None
) -> BatchRow:
    cost = coupling.transport_cost
    likeness = None
    # Two equal texts and a stranger just as near: nothing to measure between.
    if self_cost is not None and random_cost is not None and random_cost - self_cost > 1e-9 * max(1.0, abs(self_cost)):
        likeness = (random_cost - cost) / (random_cost - self_cost)
    price = coupling.price
    labels = coupling.source.labels
    order = np.argsort(-price, kind="stable")[:DEAREST].tolist()
    scores: dict[str, Any] = {} if row.gold is None else _scores(row, coupling)
    return BatchRow(
        line=row.line,
        status=coupling.status,
        source_atoms=coupling.shape[0],
        target_atoms=coupling.shape[1],
        transport_cost=cost,
        mutual_information=coupling.mutual_information,
        mean_partners=coupling.mean_partners,
        attention_distance=_attention_distance(coupling),
        epsilon=coupling.epsilon,
        cost_scale=coupling.cost_scale,
        residual=float(coupling.residual),
        self_cost=self_cost,
        shuffled_cost=shuffled,
        likeness=likeness,
        dearest=tuple((labels[i], float(price[i])) for i in order),
        **scores,
    )


def _scores(row: Row, coupling: Coupling) -> dict[str, float]:
    from sinkviz.alignment.gold import GoldPair, parse_links
    from sinkviz.alignment.links import links_from_coupling
    from sinkviz.alignment.metrics import count_links, total_scores
    from sinkviz.text import join_words

    if coupling.source.unit == "sentence":
        return {}
    sure, possible = parse_links(row.gold or "")
    numbers = []
    for words, measure in ((row.source, coupling.source), (row.target, coupling.target)):
        place = {start: index for index, (start, _) in enumerate(join_words(list(words))[1])}
        numbers.append([place[start] for start, _ in measure.word_spans])
    found = links_from_coupling(coupling, rule="null" if coupling.mechanism == "partial" else "mutual")
    links = [(numbers[0][i], numbers[1][j]) for i, j in found]
    scores = total_scores([count_links(links, GoldPair(tuple(row.source), tuple(row.target), sure, possible))])
    return {"precision": scores.precision, "recall": scores.recall, "f1": scores.f1, "aer": scores.aer}


# --- many blocks --------------------------------------------------------------------------------------------------


def _blocks(table: PairTable) -> list[Sequence[Row]]:
    return [table.rows[first : first + BLOCK] for first in range(0, len(table), BLOCK)]


def _work(rows: Sequence[Row], settings: BatchSettings, block: int) -> list[BatchRow]:
    """Compute one block in another process."""
    return compute_block(rows, settings, block=block)


def results(
    table: PairTable,
    settings: BatchSettings | None = None,
    *,
    skip: Iterable[int] = (),
    engine: Engine = "local",
    workers: int = 1,
    cancelled: Callable[[], bool] | None = None,
    stages: Stages | None = None,
) -> Iterator[tuple[int, list[BatchRow]]]:
    """Compute the blocks of a table one after the other.

    Args:
        table: the pairs.
        settings: how.
        skip: numbers of blocks that are done already.
        engine: "local", or "ray" for a cluster (the optional extra `ray`); the rows are the same.
        workers: processes of the local engine; 1 computes here. Ray uses what its cluster has.
        cancelled: asked between blocks; True ends the iteration.
        stages: counts the processor time of each stage, with one local worker.

    Yields:
        (number of the block, its rows), in the order in which they are done.

    Raises:
        ValueError: an unknown engine, Ray that is not installed, a model that does not exist.
    """
    if engine not in ENGINES:
        raise ValueError(f"engine: expected one of {', '.join(ENGINES)}, got {engine!r}")
    if type(workers) is not int or not 1 <= workers <= 256:
        raise ValueError(f"workers: expected a whole number from 1 to 256, got {workers!r}")
    settings = settings or BatchSettings()
    done = set(skip)
    blocks = [(number, rows) for number, rows in enumerate(_blocks(table)) if number not in done]
    stop = cancelled or (lambda: False)
    if engine == "ray":
        yield from _with_ray(blocks, settings, stop)
    elif workers == 1:
        for number, rows in blocks:
            if stop():
                return
            yield number, compute_block(rows, settings, block=number, stages=stages)
    else:
        yield from _with_processes(blocks, settings, workers, stop)


def _with_processes(
    blocks: Sequence[tuple[int, Sequence[Row]]], settings: BatchSettings, workers: int, stop: Callable[[], bool]
) -> Iterator[tuple[int, list[BatchRow]]]:
    import multiprocessing
    from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait

    from sinkviz.process import prepare

    waiting = iter(blocks)
    # Spawned, not forked: a fork of a process with torch's threads may hang.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(blocks) or 1), mp_context=context, initializer=prepare) as pool:
        running: dict[Future[list[BatchRow]], int] = {}
        try:
            while True:
                while len(running) < 2 * workers and not stop():
                    item = next(waiting, None)
                    if item is None:
                        break
                    running[pool.submit(_work, item[1], settings, item[0])] = item[0]
                if not running:
                    return
                finished, _ = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
                for future in finished:
                    yield running.pop(future), future.result()
                if stop():
                    return
        finally:
            for future in running:
                future.cancel()


def _with_ray(
    blocks: Sequence[tuple[int, Sequence[Row]]], settings: BatchSettings, stop: Callable[[], bool]
) -> Iterator[tuple[int, list[BatchRow]]]:
    try:
        import ray
    except ImportError as error:
        raise ValueError('engine: "ray" is not installed; install it with `pip install "sinkviz[ray]"`') from error
    started = not ray.is_initialized()
    if started:
        # RAY_ADDRESS names a cluster; without it one is started here, for this machine alone.
        ray.init(
            address=os.environ.get("RAY_ADDRESS"),
            include_dashboard=False,
            configure_logging=False,
            log_to_driver=False,
            runtime_env={"env_vars": {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}},
        )
    remote = ray.remote(num_cpus=1)(_work)
    waiting = iter(blocks)
    running: dict[Any, int] = {}
    try:
        limit = max(2, 2 * int(ray.cluster_resources().get("CPU", 1)))
        while True:
            while len(running) < limit and not stop():
                item = next(waiting, None)
                if item is None:
                    break
                running[remote.remote(list(item[1]), settings, item[0])] = item[0]
            if not running:
                return
            finished, _ = ray.wait(list(running), num_returns=1, timeout=0.5)
            for reference in finished:
                number = running.pop(reference)
                try:
                    rows = ray.get(reference)
                except ray.exceptions.RayTaskError as error:
                    cause = error.cause if isinstance(error.cause, ValueError) else None
                    if cause is not None:
                        raise ValueError(str(cause)) from error
                    raise
                yield number, rows
            if stop():
                return
    finally:
        for reference in running:
            ray.cancel(reference)
        if started:
            ray.shutdown()


# --- files --------------------------------------------------------------------------------------------------------


def partial_path(out: str | Path) -> Path:
    """Return where the finished rows lie while a batch is not complete."""
    return Path(f"{out}{_PARTIAL}")


def _head(table: PairTable, settings: BatchSettings) -> dict[str, Any]:
    return {
        "format": "sinkviz batch",
        "version": 1,
        "block": BLOCK,
        "rows": len(table),
        "table": table.fingerprint,
        "settings": settings.as_json(),
    }


def read_partial(out: str | Path, table: PairTable, settings: BatchSettings) -> dict[int, BatchRow]:
    """Return the finished rows of an interrupted batch, by their position in the table.

    A last line that was being written when the process ended is left out.

    Raises:
        ValueError: the file belongs to another table or other settings, or it is damaged.
    """
    path = partial_path(out)
    if not path.exists():
        return {}
    lines = path.read_bytes().split(b"\n")[:-1]
    if not lines:
        return {}
    hint = "finish it with the table and the options it was started with, delete it, or choose another --out"
    try:
        head = json.loads(lines[0])
    except ValueError as error:
        raise ValueError(f"{path}: expected an unfinished batch, got another or a damaged file; {hint}") from error
    wanted = json.loads(json.dumps(_head(table, settings)))
    if head != wanted:
        known = isinstance(head, dict) and head.get("format") == "sinkviz batch"
        what = "another kind of file"
        if known:
            what = "one of another table" if head.get("table") != wanted["table"] else "one with other settings"
        raise ValueError(f"{path}: expected an unfinished batch of this table with these settings, got {what}; {hint}")
    rows: dict[int, BatchRow] = {}
    for number, line in enumerate(lines[1:], start=2):
        try:
            record = json.loads(line)
            position = record.pop("row")
            if type(position) is not int or not 0 <= position < len(table):
                raise ValueError(f"row {position}")
            rows[position] = BatchRow.from_json(record)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(
                f"{path}, line {number}: expected a finished row, got something damaged; {hint}"
            ) from error
    return rows


class _Journal:
    """The append-only file of finished rows."""

    def __init__(self, path: Path, head: Mapping[str, Any]) -> None:
        self.path = path
        if path.exists():
            # Whatever follows the last line end is half a row.
            with open(path, "r+b") as file:
                file.truncate(file.read().rfind(b"\n") + 1)
        self.file = open(path, "ab")  # noqa: SIM115
        if self.file.tell() == 0:
            self._write([json.dumps(head)])

    def _write(self, lines: Iterable[str]) -> None:
        self.file.write("".join(f"{line}\n" for line in lines).encode())
        self.file.flush()
        os.fsync(self.file.fileno())

    def add(self, rows: Mapping[int, BatchRow]) -> None:
        """Append rows, and return when they are on the disk."""
        self._write(json.dumps({"row": position, **row.as_json()}) for position, row in rows.items())

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def batch(
    table: PairTable,
    out: str | Path,
    settings: BatchSettings | None = None,
    *,
    engine: Engine = "local",
    workers: int = 1,
    texts: bool = True,
    spreadsheet_safe: bool = False,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
    finished_rows: Callable[[Sequence[BatchRow]], None] | None = None,
    stages: Stages | None = None,
) -> BatchReport:
    """Couple every pair of a table and write a table of results.

    Finished rows go to a file beside the result at once (`partial_path(out)`); the same call takes it up again after
    a stop, a crash or a kill, and ends with the same result.

    Args:
        table: the pairs.
        out: .csv, .tsv, .jsonl or .parquet.
        settings: how.
        engine, workers: as in `results`.
        texts: write the texts into the result too.
        spreadsheet_safe: mark text cells of CSV and TSV that a spreadsheet would take for formulas.
        progress: called with (finished rows, all rows).
        cancelled: asked between blocks; True stops, and keeps what is finished.
        finished_rows: called with each block's rows as they are done (those of an earlier run first).
        stages: counts the processor time of each stage, with one local worker.

    Returns:
        The report; `finished` is False after a stop.

    Raises:
        ValueError: an unknown ending of `out`, an unfinished file of another table, a model that does not exist.
        OSError: a file cannot be written.
    """
    _suffix(str(out))
    settings = settings or BatchSettings()
    start = time.monotonic()
    rows = read_partial(out, table, settings)
    resumed = len(rows)
    blocks = _blocks(table)
    complete = {
        number for number, block in enumerate(blocks) if all(number * BLOCK + k in rows for k in range(len(block)))
    }
    if rows and finished_rows is not None:
        finished_rows([rows[k] for k in sorted(rows)])
    if progress is not None:
        progress(len(rows), len(table))
    journal = _Journal(partial_path(out), _head(table, settings))
    try:
        for number, block in results(
            table, settings, skip=complete, engine=engine, workers=workers, cancelled=cancelled, stages=stages
        ):
            new = {number * BLOCK + k: row for k, row in enumerate(block) if number * BLOCK + k not in rows}
            journal.add(new)
            rows.update(new)
            if finished_rows is not None:
                finished_rows(list(new.values()))
            if progress is not None:
                progress(len(rows), len(table))
    finally:
        journal.close()
    finished = len(rows) == len(table)
    if finished:
        write_results(out, table, [rows[k] for k in range(len(table))], texts=texts, spreadsheet_safe=spreadsheet_safe)
        partial_path(out).unlink()
    return BatchReport(
        rows=len(table),
        done=len(rows),
        bad=sum(row.status == "error" for row in rows.values()),
        resumed=resumed,
        not_converged=sum(row.status in ("stalled", "max_iterations") for row in rows.values()),
        seconds=time.monotonic() - start,
        finished=finished,
        path=str(out if finished else partial_path(out)),
    )


def result_bytes(
    table: PairTable, rows: Sequence[BatchRow], suffix: str, *, texts: bool = True, spreadsheet_safe: bool = False
) -> bytes:
    """Return results as the bytes of a table.

    Args:
        table: the pairs.
        rows: results, one for each row of the table or for the first of them.
        suffix: ".csv", ".tsv", ".jsonl" or ".parquet".
        texts: with the texts.
        spreadsheet_safe: as in `batch`.
    """
    by_line = {row.line: row for row in table.rows}
    columns = [*RESULT_COLUMNS]
    if texts:
        columns[1:1] = ["source", "target"]

    def record(row: BatchRow) -> dict[str, Any]:
        values = row.as_json()
        values["dearest"] = [list(pair) for pair in row.dearest]
        if texts:
            for side in ("source", "target"):
                text = getattr(by_line[row.line], side)
                values[side] = text if isinstance(text, str) else " ".join(text)
        return {column: values[column] for column in columns}

    kind = _suffix(f"result{suffix}")
    if kind == ".jsonl":
        return "".join(json.dumps(record(row), ensure_ascii=False) + "\n" for row in rows).encode()
    records = [record(row) for row in rows]
    for one in records:
        one["dearest"] = json.dumps(one["dearest"], ensure_ascii=False)
    if kind == ".parquet":
        import pyarrow
        import pyarrow.parquet

        kinds = {"line": pyarrow.int64(), "source_atoms": pyarrow.int64(), "target_atoms": pyarrow.int64()}
        words = {"source", "target", "status", "problem", "dearest"}
        schema = pyarrow.schema(
            [(c, kinds.get(c, pyarrow.string() if c in words else pyarrow.float64())) for c in columns]
        )
        buffer = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records, schema=schema), buffer)
        return buffer.getvalue()
    from sinkviz.export.tables import csv_text

    return csv_text(
        columns,
        ([one[column] for column in columns] for one in records),
        separator="\t" if kind == ".tsv" else ",",
        safe=spreadsheet_safe,
    ).encode()


def write_results(
    out: str | Path, table: PairTable, rows: Sequence[BatchRow], *, texts: bool = True, spreadsheet_safe: bool = False
) -> None:
    """Write results to a file, whole or not at all; its ending says the format.

    Raises:
        ValueError: an unknown ending.
        OSError: the file cannot be written.
    """
    from sinkviz.files import write_whole

    suffix = _suffix(str(out))
    write_whole(out, result_bytes(table, rows, suffix, texts=texts, spreadsheet_safe=spreadsheet_safe))
