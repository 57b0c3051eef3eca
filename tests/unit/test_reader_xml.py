"""XML: documents with headings, records with fields, and no entity that is fetched or expanded twice."""

import pytest

from shared.ingest.parse.readers import xml
from shared.ingest.parse.readers.guard import guarded
from tests.support.planted import guards

SENTENCE = "R&amp;D if 5 &gt; 3 &amp;&amp; 2 &lt; 4; &quot;q&quot;; caf&#233;"
CASES = {
    "entities and CDATA": (
        f"<doc><title>T</title><p>{SENTENCE}</p><c><![CDATA[AT&T < 5]]></c></doc>",
        '# T\n\nR&D if 5 > 3 && 2 < 4; "q"; café\n\nAT&T < 5',
    ),
    "inline elements": (
        "<d><p>On <i>E. coli</i>, 10<sup>3</sup> <xref><b><num>1</num></b></xref>.</p></d>",
        "On E. coli, 10³ **1**.",
    ),
    "sections": (
        (
            "<article><title>A</title><body><sec><title>B</title><p>b</p><list><list-item><p>c</p></list-item></list></sec>"
            "</body></article>"
        ),
        "# A\n\n## B\n\nb\n\n- c",
    ),
    "a table": (
        "<chapter><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table></chapter>",
        "| a | b |\n| --- | --- |\n| 1 | 2 |",
    ),
    "records": (
        '<all><item id="7"><name>Pump</name><price currency="EUR">5</price></item><row Id="1" Body="hi"/></all>',
        "id: 7\nname: Pump\nprice (EUR): 5\n\nId: 1\nBody: hi",
    ),
    "HTML in a field": ("<r><x>1</x><d><![CDATA[<p>a</p><ul><li>b</li></ul>]]></d></r>", "x: 1\nd:\n\na\n\n- b"),
    "comments and instructions": ("<?xml version='1.0'?><!-- c --><?pi x?><d><p>a<!-- b -->c</p></d>", "ac"),
    "declared entities": (
        '<!DOCTYPE d [<!ENTITY co "A &amp; B">]><d><p>&co;&nbsp;x &other;</p></d>',
        "A & B x &other;",
    ),
    "an outer entity": ('<!DOCTYPE d [<!ENTITY e SYSTEM "file:///etc/passwd">]><d><p>x &e;</p></d>', "x &e;"),
    "a stray ampersand": ("<d><p>one & two</p></d>", "one & two"),
}


@guards(
    "shared/ingest/parse/readers/xml.py",
    "is_inline and (not tag or tag in _INLINE)",
    "False",
    means="an element in an element in a text is a block",
)
@pytest.mark.parametrize(("content", "markdown"), CASES.values(), ids=CASES)
def test_xml_becomes_markdown_with_all_words(content, markdown):
    (part,) = xml.read(content.encode()).parts

    assert part.markdown == markdown
    if "id=" not in content:
        assert guarded([part]).parts == (part,)


@guards("shared/ingest/parse/readers/xml.py", "left -= len(value)", "left -= 0", means="entities without end")
def test_entities_have_a_limit():
    content = f'<!DOCTYPE d [<!ENTITY a "{"a" * 1000}">]><d><p>{"&a;" * 10_000}</p></d>'

    assert len(xml.read(content.encode()).parts[0].markdown) < 1_001_000


@guards(
    "shared/ingest/parse/readers/xml.py",
    "root is None or any(_TOO_DEEP in error.message",
    'root is None or any("none" in error.message',
    means="lost",
)
def test_deep_text_is_kept():
    content = f"{'<a>' * 50_000}deep{'</a>' * 50_000}"

    assert xml.read(content.encode()).parts[0].markdown.strip() == "deep"
