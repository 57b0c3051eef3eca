# ruff: noqa: RUF001  other scripts have letters that look like ours

import time

import pytest

from shared.domain.corpus.chunks import ChunkContent
from shared.ingest.parse.chunks.languages import language_of, with_languages
from tests.support.planted import guards

GERMAN = "Jeder Angestellte hat dreißig Tage Urlaub im Jahr, und was davon übrig bleibt, verfällt im nächsten März."
ENGLISH = "Everybody has thirty days of leave a year, and what is left of them is lost at the end of next March."
NAMES = (
    "München Nürnberg Würzburg Stuttgart Heidelberg Mannheim Karlsruhe Freiburg Augsburg Regensburg Düsseldorf Dortmund"
)
CODE = "```python\nfor employee in staff:\n    employee.leave = max(0, employee.leave - 30)\n```\n"


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("de", GERMAN),
        ("en", ENGLISH),
        ("ru", "У каждого сотрудника тридцать дней отпуска в году, а остаток пропадает в конце марта."),
        ("ar", "لكل موظف ثلاثون يوما من الإجازة في السنة وما تبقى منها يسقط في نهاية شهر مارس من العام التالي"),
        ("hi", "हर कर्मचारी को साल में तीस दिन की छुट्टी मिलती है और बची हुई छुट्टी अगले मार्च में समाप्त हो जाती है।"),
        ("zh", "每位员工每年有三十天的假期，剩下的假期在第二年三月底作废，不能再用，也不能折算成工资发给员工本人。"),
        ("ja", "従業員は誰でも一年に三十日の休暇があり、残った休暇は翌年の三月の終わりになくなります。"),
        ("th", "พนักงานทุกคนมีวันหยุดสามสิบวันต่อปี และวันที่เหลือจะหมดไปในปลายเดือนมีนาคมของปีถัดไป"),
        (
            "vi",
            "Mỗi nhân viên có ba mươi ngày nghỉ phép một năm, và những ngày còn lại sẽ mất vào cuối tháng ba năm sau.",
        ),
    ],
)
def test_language_is_detected(language, text):
    assert language_of(text) == language


def languages(*texts):
    return [chunk.language for chunk in with_languages([ChunkContent.whole(text) for text in texts])]


def test_short_chunk_inherits_document_language():
    assert languages(GERMAN, "Urlaub", ENGLISH, GERMAN) == ["de", "de", "en", "de"]


def test_short_documents_and_code_have_no_language():
    assert languages("Urlaub") == [None]
    assert languages(CODE) == [None]
    assert languages(NAMES) == [None]
    assert languages(GERMAN, CODE) == ["de", None]
    assert languages(CODE + GERMAN) == ["de"]


@guards(
    "shared/ingest/parse/chunks/languages.py",
    "for part in [prose[:_SAMPLE_CHARS], prose]",
    "for part in [prose]",
    means="the language of a long text costs as much as all of its words",
    case="sample",
)
@guards(
    "shared/ingest/parse/chunks/languages.py",
    "for part in [prose[:_SAMPLE_CHARS], prose]",
    "for part in [prose[:_SAMPLE_CHARS]]",
    means="a text that starts with a table has no language",
    case="whole text",
)
@pytest.mark.parametrize(
    ("language", "text"),
    [
        pytest.param("en", 6 * ENGLISH + 60 * GERMAN, id="sample"),
        pytest.param("de", 60 * "4711 | 0815 | 1234\n" + 6 * GERMAN, id="whole text"),
        pytest.param("de", 8 * NAMES + 60 * GERMAN, id="names"),
    ],
)
def test_start_determines_language_unless_unsure(language, text):
    assert languages(text) == [language]


@pytest.mark.parametrize("code", [CODE, CODE.replace("`", "~"), "`leave`", "https://a.example/b", "[a](/b/c)"])
def test_code_and_addresses_have_no_language(code):
    assert languages(GERMAN, 20 * code) == ["de", None]


@pytest.mark.parametrize("pattern", ["a", "](", "`", "```\n", "a://", "[a](", "字"])
def test_detection_time_is_linear_in_length(pattern):
    started = time.perf_counter()
    languages(pattern * 50_000)
    assert time.perf_counter() - started < 10
