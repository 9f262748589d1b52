from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sinkviz.alignment import gold as module
from sinkviz.alignment.gold import (
    GoldPair,
    GoldSet,
    combine,
    dump_gold,
    format_links,
    gold_from_files,
    parse_edinburgh,
    parse_gold,
    parse_links,
    parse_pharaoh,
    parse_xlwa,
    pharaoh_order,
    read_gold,
)

EDINBURGH = [
    {"source": "a b c", "target": "x y", "sureAlign": "0-0 2-1", "possibleAlign": "", "id": "n:1", "name": "n:1"},
    {"source": "d", "target": "z w", "sureAlign": "0-0", "possibleAlign": "", "id": "n:2", "name": "n:2"},
]


def edinburgh(**change: str) -> str:
    items = [dict(item) for item in EDINBURGH]
    items[1].update(change)
    return json.dumps(items, indent=4)


def own(**change: object) -> dict[str, object]:
    pair = {"source": "a cat", "target": "un gato", "sure": "0-0 1-1", "possible": "0-1"}
    return {"format": "sinkviz-gold", "version": 1, "name": "n", "pairs": [pair], **change}


words = st.lists(
    st.text(st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters=" "), min_size=1, max_size=6).filter(
        lambda word: not word.isspace()
    ),
    min_size=1,
    max_size=5,
)


@st.composite
def gold_pairs(draw: st.DrawFn) -> GoldPair:
    source, target = draw(words), draw(words)
    link = st.tuples(st.integers(0, len(source) - 1), st.integers(0, len(target) - 1))
    return GoldPair(
        tuple(source),
        tuple(target),
        draw(st.frozensets(link, min_size=1)),
        draw(st.frozensets(link)),
        id=draw(st.text(max_size=5)),
        source_language="en",
        target_language=draw(st.sampled_from(["de", "zh", ""])),
    )


@given(st.lists(gold_pairs(), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_own_format_round_trip(pairs: list[GoldPair]) -> None:
    gold = GoldSet("näme", tuple(pairs), "CC0", "notes “quoted”")
    assert parse_gold(dump_gold(gold)) == gold
    assert parse_gold(dump_gold(gold).encode()) == gold


@given(st.lists(gold_pairs(), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_pharaoh_and_xlwa_round_trip(pairs: list[GoldPair]) -> None:
    columns = [
        [" ".join(pair.source) for pair in pairs],
        [" ".join(pair.target) for pair in pairs],
        [format_links(pair.sure, pair.possible) for pair in pairs],
    ]
    three = parse_pharaoh(*("\n".join(column) for column in columns))
    tabbed = parse_xlwa("".join("\t".join(row) + "\r\n" for row in zip(*columns, strict=True)))
    for gold in (three, tabbed):
        found = [(pair.source, pair.target, pair.sure, pair.possible) for pair in gold.pairs]
        assert found == [(pair.source, pair.target, pair.sure, pair.possible) for pair in pairs]


def test_links_sure_and_possible() -> None:
    assert parse_links("1-2 0p0  3-1") == ({(1, 2), (3, 1)}, {(0, 0)})
    assert parse_links("") == (frozenset(), frozenset())
    assert parse_links("1-1 2p3", index_base=1) == ({(0, 0)}, {(1, 2)})


@pytest.mark.parametrize("field", ["1", "1-", "a-b", "1–2", "-1-2", "1-2-3", "1:2", "1-2,3-4", "9999999-0", "١-٢"])
def test_links_that_are_none(field: str) -> None:
    with pytest.raises(ValueError, match="expected i-j"):
        parse_links(field)


def test_links_counted_from_one_have_no_zero() -> None:
    with pytest.raises(ValueError, match="counted from 1"):
        parse_links("0-1", index_base=1)


def test_possible_holds_sure() -> None:
    pair = GoldPair(("a",), ("b", "c"), frozenset({(0, 0)}), frozenset({(0, 1)}))
    assert pair.possible == {(0, 0), (0, 1)}


@pytest.mark.parametrize("link", [(1, 0), (0, 2), (-1, 0)])
def test_links_out_of_range(link: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=r"indices below 1 and target indices below\s+2"):
        GoldPair(("a",), ("b", "c"), frozenset({link}))


@pytest.mark.parametrize("word", ["", " ", "\u2003", "a b", "a\x00", "\ud800", "x" * 1001])
def test_words_that_are_none(word: str) -> None:
    with pytest.raises(ValueError, match="expected words"):
        GoldPair((word,), ("b",), frozenset({(0, 0)}))


def test_pharaoh_keeps_no_break_spaces_and_line_separators_inside() -> None:
    gold = parse_pharaoh("10\u00a0000 a\u2028b\n", "zehntausend ab\n", "0-0 1-1\n")
    assert gold.pairs[0].source == ("10\u00a0000", "a\u2028b")


def test_pharaoh_pair_without_links_is_an_empty_line() -> None:
    gold = parse_pharaoh("a\nb\nc\n", "x\ny\nz\n", "0-0\n\n\n")
    assert [sorted(pair.sure) for pair in gold.pairs] == [[(0, 0)], [], []]


def test_pharaoh_of_unequal_length() -> None:
    with pytest.raises(ValueError, match=r"got 2 \(source\), 1 \(target\) and 2 \(links\)"):
        parse_pharaoh("a\nb", "x", "0-0\n0-0")


@pytest.mark.parametrize(
    ("data", "line", "what"),
    [
        (b"a\tb\t0-0\nc\td\n", 2, "three fields"),
        (b"a\tb\t0-0\n\nc\td\t0-0\n", 2, "three fields"),
        (b"a\tb\t0-0\nc\td\t0-1\n", 2, "indices"),
        (b"a\tb\t0-0\nc\td\tx\n", 2, "expected i-j"),
        (b"a\tb\t0-0\n\xff\td\t0-0\n", 2, "UTF-8"),
        (b"\td\t0-0\n", 1, "1 to 1000 words"),
    ],
)
def test_tab_separated_errors_name_the_line(data: bytes, line: int, what: str) -> None:
    with pytest.raises(ValueError, match=f"line {line}:.*{what}"):
        parse_xlwa(data)


def test_the_links_of_three_files_are_found_by_what_they_are() -> None:
    files = {"links": b"0-0\n\n1p1", "a": b"x y\nx\nx y", "b": b"z y\nz\nz y"}
    assert pharaoh_order(files) == ["a", "b", "links"]
    # Where words look like links, or none does, the order stays.
    assert pharaoh_order({"links": b"0-0", "a": b"0-0", "b": b"z"}) == ["links", "a", "b"]
    assert pharaoh_order({"links": b"0-0 x", "a": b"x", "b": b"\xff"}) == ["links", "a", "b"]


def test_edinburgh_with_possible_links() -> None:
    wider = edinburgh(sureAlign="0-0 0-1")
    gold = parse_edinburgh(edinburgh(), wider)
    assert gold.pairs[1].sure == {(0, 0)}
    assert gold.pairs[1].possible == {(0, 0), (0, 1)}
    assert gold.pairs[0].id == "n:1"
    assert parse_edinburgh(edinburgh(possibleAlign="0-1")).pairs[1].possible == {(0, 0), (0, 1)}
    # A browser sends files in the order of their names, sure+poss before sure: the links say which is which.
    assert parse_edinburgh(wider, edinburgh()) == gold
    names = ("gold.sure+poss.json", "gold.sure.json")
    sent = gold_from_files(dict(zip(names, (wider.encode(), edinburgh().encode()), strict=True)))
    assert sent.pairs == gold.pairs


@pytest.mark.parametrize(
    ("change", "what"),
    [({"sureAlign": "1-0"}, "indices"), ({"sureAlign": "00"}, "expected i-j"), ({"source": ""}, "words")],
)
def test_edinburgh_errors_name_the_line(change: dict[str, str], what: str) -> None:
    line = edinburgh(**change).split("\n").index("    {", 2) + 1
    with pytest.raises(ValueError, match=f"line {line}:.*{what}"):
        parse_edinburgh(edinburgh(**change))


def test_edinburgh_files_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="same order"):
        parse_edinburgh(edinburgh(), edinburgh(target="z q"))
    with pytest.raises(
        ValueError, match=r"'sureAlign': expected links that line .* of the other file has too, got 0-0"
    ):
        parse_edinburgh(edinburgh(), edinburgh(sureAlign="0-1"))
    with pytest.raises(ValueError, match="as many pairs"):
        parse_edinburgh(edinburgh(), json.dumps(EDINBURGH[:1]))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[1]", "line 1: expected an object"),
        ('[{"source": 1}]', "'source': expected a text"),
        ("[\n{]", "line 2: expected JSON"),
        ("[\n\n", "line 3: expected JSON"),
        ('[{"a": NaN}]', "NaN"),
        ("[]", "1 to 100000 pairs"),
        ("[{}] x", "end of the file"),
        ('[{"a": ' + "[" * 100_000, "nested too deeply|expected JSON"),
        ('[{"a": ' + "9" * 10_000 + "}]", "line 1"),
    ],
)
def test_damaged_json(text: str, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        parse_edinburgh(text)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"format": "other"}, "sinkviz-gold"),
        ({"version": 2}, "newer sinkviz"),
        ({"version": True}, "version 1"),
        ({"pairs": []}, "1 to 100000 pairs"),
        ({"pairs": [{"source": "a", "target": "b", "sure": "0-0", "surely": ""}]}, "line 1:.*'surely'"),
        ({"pairs": [{"source": "a", "target": "b"}]}, "'sure': expected a text"),
        ({"pairs": [{"source": "a", "target": "b", "sure": "0p0"}]}, "put possible links"),
        ({"pairs": [{"source": "a  b", "target": "b", "sure": "0-0"}]}, "single blanks"),
        ({"pairs": [{"source": "a", "target": "b", "sure": "0-3"}]}, "indices"),
        ({"pairs": [{"source": "a\ud800", "target": "b", "sure": "0-0"}]}, "surrogates"),
        ({"pairs": [{"source": "a", "target": "b", "sure": ""}]}, "at least one sure link"),
        ({"name": 3}, "'name'"),
        ({"extra": 3}, "'extra'"),
    ],
)
def test_own_format_errors(change: dict[str, object], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        parse_gold(json.dumps(own(**change)))


def test_own_format_needs_each_key_once() -> None:
    text = json.dumps(own())
    with pytest.raises(ValueError, match="twice"):
        parse_gold(text[:-1] + ', "version": 1}')
    with pytest.raises(ValueError, match='list under "pairs"'):
        parse_gold('{"format": "sinkviz-gold", "version": 1}')


def test_own_format_names_the_line_of_a_pair() -> None:
    good = '{"source": "a", "target": "b", "sure": "0-0"}'
    text = '{"format": "sinkviz-gold", "version": 1, "pairs": [\n' + good + ",\n" + good.replace("0-0", "4-0") + "]}"
    with pytest.raises(ValueError, match="line 3:"):
        parse_gold(text)


@given(st.binary(max_size=80))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for files in ({"x": data}, {"x": data, "y": data}, {"x": data, "y": data, "z": data}):
        with contextlib.suppress(ValueError):
            assert len(gold_from_files(files)) >= 1


@given(st.integers(0, 400), st.characters(blacklist_categories=("Cs",)))
@settings(max_examples=150, deadline=None)
def test_own_format_with_one_character_changed(position: int, character: str) -> None:
    text = dump_gold(parse_gold(json.dumps(own())))
    position %= len(text)
    with contextlib.suppress(ValueError):
        assert len(parse_gold(text[:position] + character + text[position + 1 :])) == 1
    with pytest.raises(ValueError, match="gold, line"):
        parse_gold(text[: min(position, len(text) - 3)])


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PAIRS", 2)
    with pytest.raises(ValueError, match="at most 2 pairs"):
        parse_xlwa("a\tb\t0-0\n" * 3)
    with pytest.raises(ValueError, match="at most 2 pairs"):
        parse_edinburgh(json.dumps([EDINBURGH[0]] * 3))
    monkeypatch.setattr(module, "MAX_BYTES", 10)
    with pytest.raises(ValueError, match="at most 10 bytes"):
        parse_xlwa(b"a\tb\t0-0\nc\td\t0-0\n")
    with pytest.raises(ValueError, match="1 to 1000 words"):
        GoldPair(("a",) * 1001, ("b",), frozenset())


def test_read_gold_tells_formats_apart(tmp_path) -> None:
    (tmp_path / "own.json").write_text(json.dumps(own()))
    (tmp_path / "es.dev.tsv").write_text("a cat\tun gato\t0-0 1-1\n")
    (tmp_path / "pairs.json").write_text("\ufeff \n" + edinburgh(), encoding="utf-8")
    for name, text in (("s", "a"), ("t", "b"), ("l", "1-1")):
        (tmp_path / name).write_text(text)
    assert len(read_gold(tmp_path / "own.json")) == 1
    assert read_gold(tmp_path / "es.dev.tsv").languages == ("en-es",)
    assert read_gold(tmp_path / "pairs.json").languages == ("en-en",)
    pharaoh = read_gold(tmp_path / "s", tmp_path / "t", tmp_path / "l", index_base=1)
    assert pharaoh.pairs[0].sure == {(0, 0)}
    folder = tmp_path / "edinburgh"
    folder.mkdir()
    (folder / "gold.train.sure.json").write_text(edinburgh())
    (folder / "gold.train.sure+poss.json").write_text(edinburgh(sureAlign="0-0 0-1"))
    assert read_gold(folder).pairs[1].possible == {(0, 0), (0, 1)}
    with pytest.raises(ValueError, match="name the files"):
        read_gold(tmp_path)
    with pytest.raises(ValueError, match="readable file"):
        read_gold(tmp_path / "missing.tsv")
    with pytest.raises(ValueError, match="only Pharaoh"):
        read_gold(tmp_path / "es.dev.tsv", index_base=1)
    with pytest.raises(ValueError, match="got it twice"):
        read_gold(tmp_path / "own.json", tmp_path / "own.json")
    with pytest.raises(ValueError, match="expected one file"):
        gold_from_files({str(k): b"" for k in range(4)})


def test_combine() -> None:
    gold = parse_gold(json.dumps(own(licence="CC0")))
    both = combine("both", [gold, gold])
    assert len(both) == 2
    assert both.licence == "CC0"
