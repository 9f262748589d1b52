"""Scripts and languages are told apart well enough for a notice."""

from __future__ import annotations

import pytest

from sinkviz.language import LANGUAGES, guess_language, script_shares

SENTENCES = {
    "en": "The weather was so bad that we had to stay at home with a book.",
    "de": "Das Wetter war so schlecht, dass wir mit einem Buch zu Hause bleiben mussten.",
    "es": "El tiempo era tan malo que tuvimos que quedarnos en casa con un libro.",
    "fr": "Le temps était si mauvais que nous avons dû rester à la maison avec un livre.",
    "it": "Il tempo era così brutto che siamo dovuti restare in casa con un libro.",
    "pt": "O tempo estava tão ruim que tivemos de ficar em casa com um livro, e não foi mal.",
    "nl": "Het weer was zo slecht dat we met een boek thuis moesten blijven.",
    "sv": "Vädret var så dåligt att vi fick stanna hemma med en bok.",
    "da": "Vejret var så dårligt, at vi måtte blive hjemme med en bog, og det var ikke rart.",
    "pl": "Pogoda była tak zła, że musieliśmy zostać w domu z książką.",
    "tr": "Hava o kadar kötüydü ki bir kitap ile evde kalmak zorunda kaldık.",
    "ro": "Vremea a fost atât de rea că a trebuit să stăm acasă cu o carte și un ceai.",
    "cs": "Počasí bylo tak špatné, že jsme museli zůstat doma s knihou, a to se nám nelíbilo.",
    "id": "Cuaca sangat buruk dan kami tidak bisa keluar dari rumah untuk membaca.",
    "vi": "Thời tiết xấu đến nỗi chúng tôi không thể ra khỏi nhà và phải đọc sách.",
    "ru": "Погода была такой плохой, что мы остались дома.",
    "uk": "Погода була такою поганою, що ми залишилися вдома із книжкою.",
    "el": "Ο καιρός ήταν τόσο κακός που μείναμε σπίτι.",
    "he": "מזג האוויר היה כל כך רע שנשארנו בבית.",
    "ar": "كان الطقس سيئًا لدرجة أننا بقينا في المنزل.",
    "fa": "هوا آن‌قدر بد بود که در خانه با یک کتاب پنهان ماندیم و چای خوردیم.",
    "hi": "मौसम इतना खराब था कि हम घर पर रहे।",
    "th": "อากาศแย่มากจนเราต้องอยู่บ้าน",
    "ko": "날씨가 너무 나빠서 우리는 집에 있었다.",
    "ja": "天気がとても悪かったので、家にいました。",
    "zh": "天气太糟糕了，我们只好待在家里。",
}


@pytest.mark.parametrize("language", SENTENCES)
def test_languages_are_told_apart(language: str) -> None:
    assert guess_language(SENTENCES[language]) == language
    assert language in LANGUAGES


@pytest.mark.parametrize("text", ["", "42 + 7", "…", "Berlin", "NaN", "xyz qwe rty", "bank"])
def test_unclear_texts_get_no_bold_guess(text: str) -> None:
    assert guess_language(text) is None


@pytest.mark.parametrize(
    ("text", "scripts"),
    [
        ("abc", {"Latin": 1.0}),
        ("ＡＢｃ", {"Latin": 1.0}),
        ("漢字かな", {"Han": 0.5, "Hiragana": 0.5}),
        ("ab где", {"Cyrillic": 0.6, "Latin": 0.4}),
        ("한국", {"Hangul": 1.0}),
        ("ไทย", {"Thai": 1.0}),
        ("1 2 , 😀", {}),
    ],
)
def test_scripts(text: str, scripts: dict[str, float]) -> None:
    assert script_shares(text) == pytest.approx(scripts)
    assert list(script_shares(text)) == list(scripts)
