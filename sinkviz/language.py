"""Script and language of a text, guessed without a model: enough for notices and for abbreviations."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import lru_cache

_CONTEXT = 10_000  # a language shows in the first pages; longer texts are not read whole to guess it
_WORD = re.compile(r"[^\W\d_]+")

# fmt: off
_SCRIPTS = (
    "Latin", "Cyrillic", "Greek", "Armenian", "Georgian", "Hebrew", "Arabic", "Syriac", "Thaana",
    "Devanagari", "Bengali", "Gurmukhi", "Gujarati", "Oriya", "Tamil", "Telugu", "Kannada", "Malayalam",
    "Sinhala", "Thai", "Lao", "Tibetan", "Myanmar", "Khmer", "Ethiopic", "Cherokee", "Mongolian",
    "Hiragana", "Katakana", "Bopomofo", "Hangul", "Coptic", "Tifinagh",
)
# fmt: on
_BY_NAME = {"CJK": "Han", **{name.upper(): name for name in _SCRIPTS}}
"""First word of a letter's Unicode name: name of its script. Everything else is "Other"."""


@lru_cache(maxsize=8192)
def _script(character: str) -> str:
    # Compatibility forms ("FULLWIDTH LATIN …") and styled letters decompose to the plain ones.
    plain = unicodedata.normalize("NFKD", character)[:1]
    return _BY_NAME.get(unicodedata.name(plain, "").partition(" ")[0], "Other")


def script_shares(text: str) -> dict[str, float]:
    """Return which share of the letters belongs to which script, largest first; {} if there are no letters.

    >>> script_shares("abc где 7!")
    {'Latin': 0.5, 'Cyrillic': 0.5}
    """
    count: Counter[str] = Counter()
    for character, times in Counter(text).items():
        if character.isalpha():
            count[_script(character)] += times
    total = sum(count.values())
    return {name: times / total for name, times in count.most_common()}


# The commonest function words tell languages of one script apart in a sentence or two; a word that several of
# the languages share counts for each of them.
FUNCTION_WORDS = {
    "en": "the of and to a in is that it was for with as on are this be by not have from at an you they his "
    "but were he she we i or which has had will would there their what so if can who been one all do "
    "does did no my your",
    "de": "der die und das ist nicht den von zu mit ein eine einen einer eines im dem sich auf für des als "
    "auch es an werden aus er hat dass sie nach wird bei noch wie einem über so war ich wir aber oder "
    "wenn nur vor zur zum bis habe haben sind kann mein ihr",
    "es": "el la los las de que y en un una es por con no para su al lo como más pero sus le ya fue este "
    "esta se del ha muy sin sobre también me hasta hay donde desde todo nos cuando entre son era ser "
    "está él",
    "fr": "le la les de des et un une est en que qui dans du pour pas au sur par il elle ne se ce plus avec "
    "sont cette son sa ses mais aux ou ont été être nous vous je tu comme leur fait si tout aussi c d "
    "l qu n s j était",
    "it": "il la di che e un una è in per non del della le gli con si dei nel da al sono lo come più alla "
    "anche ma ha delle dal nella i su questo questa o se ed era suo sua loro stato degli dalla essere "
    "l",
    "pt": "o a os as de que e do da em um uma para com não por mais no na se é dos das como mas foi ao ele "
    "ela seu sua ou ser quando muito há nos já está eu também só pelo pela até isso entre era depois "
    "são",
    "nl": "de het een en van ik te dat die in is niet op aan met voor er maar om hem dan zijn of wat mijn "
    "men dit zo door over ze zich bij ook tot je naar uit kan werd wordt nog heeft hij ze deze",
    "sv": "och att det i en jag hon som han på den med var sig för så till är men ett om hade de av icke "
    "mig du henne då sin nu har inte hans honom skulle hennes där min man ej vid kunde något från ut "
    "när",
    "da": "og i jeg det at en den til er som på de med han af for ikke der var mig sig men et har om vi min "
    "havde ham hun nu over da fra du ud sin dem os op man hans hvor eller hvad skal selv her alle vil "
    "blev kunne",
    "pl": "i w nie na się że z do to jest o jak za od co po ale był przez już tak czy tylko jego jej dla "
    "może są ma był była było być który która które przed bardzo oraz ich tym tego",
    "tr": "ve bir bu da de için ile o çok ne gibi daha ben sen var mı mi ama en kadar her olarak değil "
    "sonra olan oldu diye ki ya şey zaman ancak hem göre veya",
    "ro": "și în a de la cu nu o un pe că este din mai se pentru care ce sunt să au fost al lui ale fi dar "
    "sau prin după era între acest această",
    "cs": "a se v na je že to s z i o do ale jako za by pro jeho jsem si po byl tak jsou které který když "
    "nebo jen už od této být jeho její bylo",
    "id": "yang dan di itu dengan untuk tidak ini dari dalam akan pada juga saya ke karena ada mereka kami "
    "adalah oleh seperti bisa atau telah lebih sudah kita",
    "vi": "và của là có không được cho một những trong người các đã với này để khi từ đến ra như nhưng tôi "
    "nó anh còn rất sẽ tại về",
}
_BY_WORD: dict[str, tuple[str, ...]] = {
    word: tuple(code for code, words in FUNCTION_WORDS.items() if word in words.split())
    for words in FUNCTION_WORDS.values()
    for word in words.split()
}
_BY_SCRIPT = {
    "Greek": "el",
    "Armenian": "hy",
    "Georgian": "ka",
    "Hebrew": "he",
    "Arabic": "ar",
    "Devanagari": "hi",
    "Bengali": "bn",
    "Tamil": "ta",
    "Telugu": "te",
    "Thai": "th",
    "Hangul": "ko",
    "Ethiopic": "am",
}
LANGUAGES = {
    "en": "English",
    "de": "German",
    "es": "Spanish",
    "fr": "French",
    "it": "Italian",
    "pt": "Portuguese",
    "nl": "Dutch",
    "sv": "Swedish",
    "da": "Danish",
    "pl": "Polish",
    "tr": "Turkish",
    "ro": "Romanian",
    "cs": "Czech",
    "id": "Indonesian",
    "vi": "Vietnamese",
    "ru": "Russian",
    "uk": "Ukrainian",
    "el": "Greek",
    "hy": "Armenian",
    "ka": "Georgian",
    "he": "Hebrew",
    "ar": "Arabic",
    "fa": "Persian",
    "hi": "Hindi",
    "bn": "Bengali",
    "ta": "Tamil",
    "te": "Telugu",
    "th": "Thai",
    "ko": "Korean",
    "am": "Amharic",
    "ja": "Japanese",
    "zh": "Chinese",
}
"""Languages that `guess_language` can name: two-letter code to English name."""


def guess_language(text: str) -> str | None:
    """Return the two-letter code of the language a text seems to be in, or None where it is not clear.

    Scripts decide first; languages of the Latin script are told apart by their function words. Made for
    notices and abbreviations: short or mixed texts give None rather than a bold guess.

    >>> guess_language("Der Hund schläft nicht, und die Katze ist auf dem Dach.")
    'de'
    >>> guess_language("42") is None
    True
    """
    start = text[:_CONTEXT]
    shares = script_shares(start)
    if not shares:
        return None
    kana = shares.get("Hiragana", 0.0) + shares.get("Katakana", 0.0)
    if kana > 0.1:
        return "ja"
    if shares.get("Han", 0.0) > 0.5:
        return "zh"
    script, share = next(iter(shares.items()))
    if share < 0.6:
        return None
    if script == "Cyrillic":
        return "uk" if any(letter in start for letter in "іїєґІЇЄҐ") else "ru"
    if script == "Arabic":
        return "fa" if any(letter in start for letter in "پچژگ") else "ar"
    if script in _BY_SCRIPT:
        return _BY_SCRIPT[script]
    if script != "Latin":
        return None
    words = _WORD.findall(start.casefold())  # "l'eau" gives "l" and "eau": the function word counts
    found: Counter[str] = Counter()
    for word in words:
        for code in _BY_WORD.get(word, ()):
            found[code] += 1
    if not found:
        return None
    (best, hits), *others = found.most_common(2)
    runner_up = others[0][1] if others else 0
    if hits < 2 or hits < 0.1 * len(words) or hits == runner_up:
        return None
    return best
