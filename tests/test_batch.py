"""Batches: the same numbers as one by one, whoever computes them and however often they are interrupted."""

import csv
import functools
import io
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sinkviz import batch as room
from sinkviz.batch import (
    RESULT_COLUMNS,
    BatchRow,
    BatchSettings,
    PairTable,
    batch,
    compute_block,
    couple_many,
    pair_table,
    partial_path,
    read_pairs,
    read_partial,
    result_bytes,
    results,
    transport_costs,
)
from sinkviz.measure import Measure
from sinkviz.pipeline import couple
from sinkviz.settings import CouplingSettings

PAIRS = [
    ("A small fish swam.", "One tiny fish was swimming."),
    ("The river is wide.", "A broad stream"),
    ("yes", "no"),
    ("Two men sat on the bank.", "A pair of men rested near the water, and waited."),
    ("The market opens early.", "Shops close late in the evening."),
]
TABLE = pair_table(PAIRS)


@pytest.fixture(scope="module")
def whole() -> list[BatchRow]:
    return compute_block(TABLE.rows, BatchSettings())


# --- ragged batches against one by one ----------------------------------------------------------------------------

MECHANISMS = (
    CouplingSettings(),
    CouplingSettings(mechanism="softmax"),
    CouplingSettings(mechanism="relaxed", relaxation=0.4),
    CouplingSettings(mechanism="relaxed", relaxation=float("inf")),
    CouplingSettings(mechanism="partial", null_cost=-0.4),
    CouplingSettings(mechanism="softmax", null_cost=-0.4),
    CouplingSettings(mechanism="exact"),
    CouplingSettings(epsilon=0.1, epsilon_unit="absolute"),
)


@pytest.mark.parametrize("chosen", MECHANISMS, ids=lambda one: f"{one.mechanism}-{one.relaxation}-{one.null_cost}")
def test_many_are_what_each_is_alone(chosen: CouplingSettings) -> None:
    rng = np.random.default_rng(0)
    shapes = [(3, 5), (1, 4), (7, 2), (6, 6), (5, 1), (1, 1), (2, 9), (6, 6)]
    pairs = []
    for n, m in shapes:
        x, y = rng.normal(size=(n, 3)), rng.normal(size=(m, 3))
        a, b = rng.random(n), rng.random(m)
        a[0] = 0.0 if n > 2 else a[0]
        pairs.append((Measure.from_points(x, a), Measure.from_points(y, b)))
    same = Measure.from_points(np.ones((3, 2)))
    pairs.append((same, same))  # a constant cost
    many = couple_many(pairs, chosen)
    for one, (source, target) in zip(many, pairs, strict=True):
        alone = couple(source, target, **chosen.solving())
        np.testing.assert_allclose(one.plan, alone.plan, atol=1e-5)
        np.testing.assert_allclose(one.null_source, alone.null_source, atol=1e-5)
        np.testing.assert_allclose(one.null_target, alone.null_target, atol=1e-5)
        assert (one.mechanism, one.null_cost) == (alone.mechanism, alone.null_cost)
        np.testing.assert_allclose([one.epsilon, one.cost_scale], [alone.epsilon, alone.cost_scale], rtol=1e-9)
        assert (one.relaxation is None) == (alone.relaxation is None)
        np.testing.assert_allclose(one.relaxation or 0.0, alone.relaxation or 0.0, rtol=1e-9)
    np.testing.assert_allclose(transport_costs(pairs, chosen), [one.transport_cost for one in many], atol=1e-6)


def test_groups_stay_within_their_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "BATCH_ENTRIES", 60)
    shapes = [(n, m) for n in range(1, 9) for m in range(1, 9)]
    groups = room._groups(shapes)
    assert sorted(k for group in groups for k in group) == list(range(len(shapes)))
    for group in groups:
        padded = max(shapes[k][0] for k in group) * max(shapes[k][1] for k in group) * len(group)
        assert len(group) == 1 or padded <= 60


def test_a_row_is_what_the_library_says(whole: list[BatchRow]) -> None:
    for row, (source, target) in zip(whole, PAIRS, strict=True):
        coupling = couple(source, target, unit="word")
        attention = couple(source, target, unit="word", mechanism="softmax")
        assert row.transport_cost == pytest.approx(coupling.transport_cost, abs=1e-5)
        assert row.mutual_information == pytest.approx(coupling.mutual_information, abs=1e-4)
        assert row.attention_distance == pytest.approx(attention.received_distance, abs=1e-5)
        assert row.self_cost is not None
        selves = [couple(text, text, unit="word").transport_cost for text in (source, target)]
        assert row.self_cost == pytest.approx(np.mean(selves), abs=1e-5)
        order = np.argsort(-coupling.price, kind="stable")[: len(row.dearest)]
        np.testing.assert_allclose([price for _, price in row.dearest], coupling.price[order], atol=1e-5)
        assert {label for label, _ in row.dearest} <= set(coupling.source.labels)


def test_a_text_with_itself_is_like_itself() -> None:
    rows = compute_block(pair_table([(text, text) for text, _ in PAIRS]).rows, BatchSettings())
    for row in rows:
        assert row.likeness == pytest.approx(1.0, abs=1e-6)


def test_attention_with_a_null_partner_is_measured_as_such() -> None:
    chosen = CouplingSettings(mechanism="partial", null_cost=-0.4)
    (row,) = compute_block(TABLE.rows[:1], BatchSettings(chosen, baselines=False))
    attention = couple(*PAIRS[0], unit="word", mechanism="softmax", null_cost=-0.4)
    assert row.attention_distance == pytest.approx(attention.received_distance, abs=1e-6)


def test_shuffled_pairs_are_others_of_the_block() -> None:
    for count in range(2, 9):
        partners = room._partners(list(range(count)), seed=3, block=1)
        assert sorted(partners) == sorted(partners.values()) == list(range(count))
        assert all(k != partner for k, partner in partners.items())
    assert room._partners([0], 0, 0) == {}
    assert room._partners(list(range(50)), 0, 0) != room._partners(list(range(50)), 1, 0)


def test_gold_links_are_scored() -> None:
    table = read_pairs(
        "source\ttarget\tlinks\nthe cat sleeps\ta cat sleeps\t0-0 1-1 2-2\nthe cat\ta dog\t0-9\n",
        name="gold.tsv",
        gold="links",
    )
    assert "0-9" in table.rows[1].problem
    rows = compute_block(table.rows, BatchSettings(baselines=False))
    assert rows[0].precision == rows[0].recall == rows[0].f1 == 1.0
    assert rows[0].aer == 0.0


# --- tables ---------------------------------------------------------------------------------------------------------


def test_every_format_is_read(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    records = [{"source": one, "target": other} for one, other in PAIRS]
    parquet = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), parquet)
    for name, data in (
        ("p.csv", csv_of(PAIRS, ",")),
        ("p.tsv", csv_of(PAIRS, "\t")),
        ("p.jsonl", "".join(json.dumps(record) + "\n" for record in records).encode()),
        ("p.parquet", parquet.getvalue()),
    ):
        path = tmp_path / name
        path.write_bytes(data)
        table = read_pairs(path)
        assert [(row.source, row.target) for row in table.rows] == PAIRS
        assert read_pairs(data, name=name).fingerprint == read_pairs(path).fingerprint


def csv_of(pairs: list[tuple[str, str]], separator: str) -> bytes:
    buffer = io.StringIO(newline="")
    csv.writer(buffer, delimiter=separator).writerows([("source", "target"), *pairs])
    return buffer.getvalue().encode()


def test_bad_rows_have_their_line_and_do_not_stop_the_rest() -> None:
    data = 'source,target\n"two\nlines",fine\nonly one\n,empty\nfine,too\n"bad\x01",x\n'
    table = read_pairs(data, name="p.csv")
    assert [(row.line, bool(row.problem)) for row in table.rows] == [
        (2, False),
        (4, True),
        (5, True),
        (6, False),
        (7, True),
    ]
    rows = compute_block(table.rows, BatchSettings(baselines=False))
    assert [row.status == "error" for row in rows] == [False, True, True, False, True]
    assert [row.line for row in rows] == [2, 4, 5, 6, 7]


def test_a_text_without_tokens_is_a_bad_row_only() -> None:
    table = pair_table([("a cat", "\u0378"), ("a cat", "a dog")])
    rows = compute_block(table.rows, BatchSettings(baselines=False))
    assert rows[1].status == "converged"


def test_columns_are_chosen_by_name() -> None:
    data = b"id,en,de\n1,a cat,eine Katze\n"
    assert room.table_columns(data, "x.csv") == ["id", "en", "de"]
    table = read_pairs(data, name="x.csv", source="en", target="de")
    assert table.rows[0].target == "eine Katze"
    with pytest.raises(ValueError, match="id, en, de"):
        read_pairs(data, name="x.csv", source="fr")


@pytest.mark.parametrize(
    ("data", "name", "message"),
    [
        (b"a,b\n", "x.csv", "at least one row"),
        (b"", "x.csv", "x.csv"),
        (b"a,b\nc,d\n", "x.doc", "ends in"),
        (b"a,b\nc,\xff\n", "x.csv", "line 2"),
        (b"PAR1rubbish", "x.parquet", "Parquet"),
        (b"[1]\n", "x.jsonl", "JSON object"),
        (b"a,a\nc,d\n", "x.csv", "different names"),
        (b"a\nc\n", "x.csv", "columns source and target"),
    ],
)
def test_tables_that_are_none_are_refused(data: bytes, name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_pairs(data, name=name)


def test_rows_are_bounded() -> None:
    with pytest.raises(ValueError, match="at most 2 rows"):
        read_pairs(csv_of(PAIRS, ","), name="x.csv", maximum_rows=2)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200), st.sampled_from((".csv", ".tsv", ".jsonl", ".parquet")))
def test_any_bytes_are_a_table_or_refused(data: bytes | str, suffix: str) -> None:
    try:
        table = read_pairs(data, name=f"x{suffix}")
    except ValueError as error:
        assert len(str(error)) < 500  # noqa: PT017
    else:
        assert all(row.problem or (row.source and row.target) for row in table.rows)


# --- results --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_results_are_written_in_every_format(suffix: str, whole: list[BatchRow]) -> None:
    data = result_bytes(TABLE, whole, suffix)
    if suffix == ".parquet":
        import pyarrow.parquet

        records = pyarrow.parquet.read_table(io.BytesIO(data)).to_pylist()
    elif suffix == ".jsonl":
        records = [json.loads(line) for line in data.decode().splitlines()]
    else:
        reader = csv.DictReader(io.StringIO(data.decode()), delimiter="," if suffix == ".csv" else "\t")
        records = list(reader)
    assert len(records) == len(whole)
    assert set(records[0]) == {*RESULT_COLUMNS, "source", "target"}
    for record, row in zip(records, whole, strict=True):
        assert float(record["transport_cost"]) == row.transport_cost
        dearest = record["dearest"] if suffix == ".jsonl" else json.loads(record["dearest"])
        assert tuple(map(tuple, dearest)) == row.dearest


def test_formulas_can_be_marked(whole: list[BatchRow]) -> None:
    table = pair_table([("=1+1", "a"), *PAIRS[1:]])
    rows = [replace(row, line=k + 1) for k, row in enumerate(whole)]
    assert b"'=1+1" in result_bytes(table, rows, ".csv", spreadsheet_safe=True)
    assert b",=1+1" in result_bytes(table, rows, ".csv")


# --- stopping and going on ------------------------------------------------------------------------------------------


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "BLOCK", 2)


@pytest.mark.usefixtures("small_blocks")
def test_stopped_and_resumed_is_the_same(tmp_path: Path) -> None:
    straight, parts = tmp_path / "straight.csv", tmp_path / "parts.csv"
    report = batch(TABLE, straight)
    assert report.finished
    assert report.done == len(PAIRS)
    seen: list[tuple[int, int]] = []
    runs = 0
    while True:
        runs += 1
        answers = iter((False, True))
        report = batch(
            TABLE,
            parts,
            cancelled=functools.partial(next, answers),
            progress=lambda done, every: seen.append((done, every)),
        )
        if report.finished:
            break
        assert not parts.exists()
        assert partial_path(parts).exists()
    assert runs == 3
    assert report.resumed == 4
    assert parts.read_bytes() == straight.read_bytes()
    assert not partial_path(parts).exists()
    assert seen[-1] == (5, 5)


@pytest.mark.usefixtures("small_blocks")
def test_half_a_line_is_thrown_away(tmp_path: Path) -> None:
    out = tmp_path / "r.csv"
    calls = iter((False, True))
    batch(TABLE, out, cancelled=lambda: next(calls))
    with open(partial_path(out), "ab") as file:
        file.write(b'{"row": 2, "line": 3, "sta')
    assert sorted(read_partial(out, TABLE, BatchSettings())) == [0, 1]
    assert batch(TABLE, out).finished
    assert len(out.read_text().splitlines()) == 6


@pytest.mark.usefixtures("small_blocks")
def test_unfinished_work_is_never_mixed(tmp_path: Path) -> None:
    out = tmp_path / "r.csv"
    calls = iter((False, True))
    batch(TABLE, out, cancelled=lambda: next(calls))
    before = partial_path(out).read_bytes()
    with pytest.raises(ValueError, match="other settings"):
        batch(TABLE, out, BatchSettings(seed=1))
    with pytest.raises(ValueError, match="another table"):
        batch(pair_table([*PAIRS[1:], PAIRS[0]]), out)
    assert partial_path(out).read_bytes() == before
    partial_path(out).write_text("rubbish\n")
    with pytest.raises(ValueError, match="damaged"):
        batch(TABLE, out)


KILLED = """
import sys
from sinkviz import batch as room
room.BLOCK = 2
table = room.pair_table([("A small fish swam.", f"Fish number {k} swam.") for k in range(400)])
room.batch(table, sys.argv[1], room.BatchSettings(baselines=False))
"""


def test_a_killed_process_leaves_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "r.csv"
    root = str(Path(__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(out)], cwd=root, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if partial_path(out).exists() and partial_path(out).read_bytes().count(b"\n") > 8:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not out.exists()
    monkeypatch.setattr(room, "BLOCK", 2)
    table = pair_table([("A small fish swam.", f"Fish number {k} swam.") for k in range(400)])
    rows = read_partial(out, table, BatchSettings(baselines=False))
    assert 8 <= len(rows) < 400
    lines = partial_path(out).read_bytes()
    # The next run keeps them and appends.
    calls = iter((False, True))
    report = batch(table, out, BatchSettings(baselines=False), cancelled=lambda: next(calls))
    assert report.resumed == len(rows)
    assert partial_path(out).read_bytes().startswith(lines[: lines.rfind(b"\n") + 1])


def test_a_wrong_model_is_an_error_of_the_whole() -> None:
    with pytest.raises(ValueError, match="all-MiniLM-L6-v2"):
        compute_block(TABLE.rows, BatchSettings(CouplingSettings(model="nothing")))
    with pytest.raises(ValueError, match="layer"):
        compute_block(TABLE.rows, BatchSettings(CouplingSettings(layer=99)))


@pytest.mark.usefixtures("small_blocks")
def test_several_processes_give_the_same_rows(whole: list[BatchRow]) -> None:
    del whole
    alone = dict(results(TABLE))
    many = dict(results(TABLE, workers=2))
    assert alone == many


def test_ray_gives_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="the optional extra ray is not installed")
    monkeypatch.setattr(room, "BLOCK", 2)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert dict(results(TABLE, engine="ray")) == dict(results(TABLE))
    with pytest.raises(ValueError, match="all-MiniLM-L6-v2"):
        list(results(TABLE, BatchSettings(CouplingSettings(model="nothing")), engine="ray"))


def test_ray_that_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match="pip install"):
        list(results(TABLE, engine="ray"))
    with pytest.raises(ValueError, match="engine"):
        list(results(TABLE, engine="dask"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="workers"):
        list(results(TABLE, workers=0))


def test_the_fingerprint_sees_every_change() -> None:
    changed = [
        PairTable("x", (replace(TABLE.rows[0], **change), *TABLE.rows[1:]), TABLE.columns).fingerprint
        for change in ({"source": "b"}, {"target": "b"}, {"line": 9}, {"gold": "0-0"}, {"problem": "p"})
    ]
    assert len({TABLE.fingerprint, *changed}) == 6
