"""Mail: every charset, form and attachment arrives as text, or is named."""

import base64
import quopri

import pytest

from shared.domain.errors import Unreadable
from shared.ingest.parse.extraction import extract
from shared.ingest.parse.readers.charsets import codec_of, decode_text
from tests.support.planted import guards

PEOPLE = b"From: Ann <a@x.example>\nTo: b@x.example\n"
SENTENCES = {
    "gb2312": "会议改到星期五下午三点 地点在三号会议室。",
    "gb18030": "会议改到星期五下午三点 地点在三号会议室。",
    "big5": "會議改到星期五下午三點 地點在三號會議室。",
    "euc-kr": "회의는 금요일 오후 세 시로 변경되었습니다.",
    "ks_c_5601-1987": "회의는 금요일 오후 세 시로 변경되었습니다.",
    "shift_jis": "会議は①金曜日の午後三時に変更されました。",
    "iso-2022-jp": "会議は金曜日の午後三時に変更されました。",
    "euc-jp": "会議は金曜日の午後三時に変更されました。",
    "windows-874": "การประชุมเลื่อนไปเป็นวันศุกร์",
    "windows-1251": "Заседание переносится на пятницу.",
    "koi8-r": "Заседание переносится на пятницу.",
    "iso-8859-2": "Schůze se přesouvá na pátek.",
    "utf-7": "Die Prüfung beginnt später 5 €.",
    "utf-8": "Die Prüfung beginnt später 5 €.",
}
CODECS = {"ks_c_5601-1987": "cp949", "windows-874": "cp874", "shift_jis": "cp932"}


def read(content, name="a.eml"):
    return extract(content, filename=name, media_type=None, max_text_chars=1_000_000)


def mail(*parts, kind="mixed", headers=PEOPLE + b"Subject: Ferry\n"):
    body = b"".join(b"--=b\n" + part + b"\n" for part in parts)
    return (
        headers
        + b"MIME-Version: 1.0\nContent-Type: multipart/"
        + kind.encode()
        + b'; boundary="=b"\n\n'
        + body
        + b"--=b--\n"
    )


def part(kind, content, *headers):
    return b"\n".join((b"Content-Type: " + kind, *headers)) + b"\n\n" + content


def attached(name, content, kind=b"application/octet-stream"):
    disposition = b'Content-Disposition: attachment; filename="' + name + b'"'
    return part(kind, base64.encodebytes(content), disposition, b"Content-Transfer-Encoding: base64")


@guards(
    "shared/ingest/parse/readers/charsets.py",
    '    "shift_jis": "cp932",',
    '    "shift_jis": "shift_jis",',
    means="letters that only Windows has become U+FFFD",
)
@pytest.mark.parametrize("encoding", ["8bit", "base64", "quoted-printable"])
@pytest.mark.parametrize("charset", SENTENCES)
def test_charset_is_decoded_in_subject_and_text(charset, encoding):
    sentence = SENTENCES[charset]
    data = sentence.encode(CODECS.get(charset, charset))
    body = {
        "8bit": lambda: data,
        "base64": lambda: base64.encodebytes(data),
        "quoted-printable": lambda: quopri.encodestring(data),
    }
    subject = f"=?{charset}?B?{base64.b64encode(data).decode()}?=".encode()
    headers = f"Content-Type: text/plain; charset={charset}\nContent-Transfer-Encoding: {encoding}\n\n".encode()

    text = read(PEOPLE + b"Subject: " + subject + b"\n" + headers + body[encoding]())

    assert text.title == sentence
    assert text.text.endswith(f"\n\n{sentence}")


@guards(
    "shared/ingest/parse/readers/charsets.py",
    "return bool(_OFTEN_WRONG.fullmatch(codec)) or",
    "return False and",
    means="UTF-8 that declares Latin letters is mojibake",
)
@pytest.mark.parametrize("declared", ["iso-8859-1", "us-ascii", "x-unknown", "windows-1252", "no-such-charset"])
def test_wrongly_declared_utf8_is_decoded(declared):
    assert decode_text("Gebühr: 5 €".encode(), declared) == "Gebühr: 5 €"


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("cp-850", "cp850"),
        ("win-1251", "cp1251"),
        ("idna", None),
        ("base64", None),
        (" 'UTF-8' ", "utf-8"),
        (None, None),
    ],
)
def test_charset_names_lead_to_codecs(name, codec):
    assert codec_of(name) == codec


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_whole_mail_may_be_utf16_or_have_mark(encoding):
    source = "From: Ann <a@x.example>\nSubject: Gebühr\nContent-Type: text/plain; charset=iso-8859-1\n\nGebühr: 5 €\n"

    assert read(source.encode(encoding)).text.endswith("Gebühr: 5 €")


def test_encoded_word_cut_between_bytes_is_joined():
    data = "会议改到星期五".encode("gb2312")
    words = [f"=?gb2312?B?{base64.b64encode(piece).decode()}?=" for piece in (data[:5], data[5:])]

    assert read(f"Subject: {words[0]}\n {words[1]}\nFrom: a@x.example\n\nText".encode()).title == "会议改到星期五"


@guards(
    "shared/ingest/parse/readers/mail/letter.py",
    "out.append(line.lstrip() if is_quote else",
    "out.append(line.lstrip(' >') if is_quote else",
    means="a quoted reply looks like the message",
)
def test_plain_mail_keeps_lines_quotes_and_signature():
    text = read(
        PEOPLE + b"Subject: s\n\nDear Bob,\nthe ferry is late.\n# 1\n\n> What time?\n> Ann\nAt noon.\n-- \nAnn\n"
    ).text

    assert text.endswith("Dear Bob,\nthe ferry is late.\n\\# 1\n\n> What time?\n> Ann\n\nAt noon.\n\n--\nAnn")


@pytest.mark.parametrize(("delsp", "joined"), [(b"no", "one two"), (b"yes", "onetwo")])
def test_flowed_lines_are_joined(delsp, joined):
    kind = b"Content-Type: text/plain; format=flowed; delsp=" + delsp

    assert (
        read(PEOPLE + kind + b"\n\none \ntwo\n> quoted \n> on\n")
        .text.split("\n\n", 1)[1]
        .startswith(joined + "\n> quoted")
    )


def test_html_is_read_once_as_richest_form():
    plain = part(b"text/plain", b"Item Cost\nLaptop 1,200\n")
    html = part(
        b"text/html", b"<table><tr><th>Item</th><th>Cost</th></tr><tr><td>Laptop</td><td>1,200</td></tr></table>"
    )

    text = read(mail(plain, html, kind="alternative")).text

    assert text.count("Laptop") == 1
    assert text.count("|") == 9


@guards(
    "shared/ingest/parse/readers/mail/letter.py",
    "return filled[chosen] + [body for form in apart for body in form]",
    "return filled[chosen]",
    means="a text that only one form has is lost",
)
def test_forms_with_different_texts_are_both_read():
    plain, html = (
        part(b"text/plain", b"PLAIN " * 9 + b"one two three"),
        part(b"text/html", b"<p>Open it in a browser</p>"),
    )

    text = read(mail(plain, html, kind="alternative")).text

    assert "one two three" in text
    assert "Open it in a browser" in text


@guards(
    "shared/ingest/parse/readers/attachments.py",
    "parts += _under(name, reading, level, f'{label} \"{name}\"')",
    "parts += []",
    means="the text of attachments is lost",
)
def test_attachments_are_read_below_their_names():
    text = read(
        mail(
            part(b"text/plain", b"See below."),
            attached(b"prices.csv", b"a,b\n1,2\n"),
            attached(b"n.md", b"# One\ntext"),
        )
    )

    assert "## prices.csv\n\n| a | b |" in text.text
    assert text.text.endswith("## n.md\n\n### One\ntext")
    assert text.unread == ()


@guards(
    "shared/ingest/parse/readers/attachments.py",
    "if reason and not _is_empty(file, reason):",
    "if False:",
    means="an attachment that was not read is not named",
)
def test_unread_attachments_are_named_with_reason():
    picture = attached(b"plan.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(20), b"image/png")
    (sentence,) = read(mail(part(b"text/plain", b"The plan."), picture)).unread

    assert sentence.startswith('the attachment "plan.png" was not read: the file is a picture (PNG)')


def test_inline_picture_needs_no_sentence():
    logo = part(
        b"image/png",
        base64.encodebytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
        b"Content-ID: <1>",
        b"Content-Transfer-Encoding: base64",
    )

    assert read(mail(part(b"text/html", b"<p>Hello</p>"), logo, kind="related")).unread == ()


def test_forwarded_message_is_labelled_and_read():
    inner = PEOPLE + b"Subject: Timetable\n\nThe ferry leaves at noon.\n"
    text = read(mail(part(b"text/plain", b"FYI"), part(b"message/rfc822", inner))).text

    assert "FYI\n\n## Timetable\n\nForwarded message\n\nFrom: Ann <a@x.example>" in text
    assert text.endswith("The ferry leaves at noon.")


@pytest.mark.parametrize("kind", [b"message/rfc822", b"multipart/mixed; boundary=b"])
def test_deep_nesting_ends_with_a_sentence(kind):
    inner = b"--b\n" if b"boundary" in kind else b""

    assert "nested too deep" in " ".join(
        read(PEOPLE + b"Subject: s\n" + (b"Content-Type: " + kind + b"\n\n" + inner) * 5_000).unread
    )


def test_encrypted_text_is_named():
    pgp = b"-----BEGIN PGP MESSAGE-----\n\nhQEMA\n-----END PGP MESSAGE-----\n"
    mixed = read(PEOPLE + b"Subject: s\n\nHello\n" + pgp + b"Bye")

    assert mixed.text.endswith("Hello\n\nBye")
    assert mixed.unread == ("the text of the message is encrypted (PGP); add a decrypted copy",)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"SGVsbG8g\n!!\nd29ybGQ=\n", "Hello world"),
        (b"SGVsbG8=\n\n_____\nlist footer of the server\n", "Hello\n\n_____\nlist footer of the server"),
        (b"This is not encoded at all, and stays.", "This is not encoded at all, and stays."),
        (b"SGVsbG8=d29ybGQ=", "Helloworld"),
    ],
)
def test_damaged_base64_is_read(body, text):
    assert read(PEOPLE + b"Content-Transfer-Encoding: base64\n\n" + body).text.endswith(text)


def test_uuencoded_file_in_text_is_an_attachment():
    text = read(PEOPLE + b"Subject: s\n\nSee:\nbegin 644 a.txt\n+:&5L;&\\@=V]R;&0*\n`\nend\nBye").text

    assert text.endswith("## a.txt\n\nhello world")
    assert "See:\nBye" in text


@guards(
    "shared/ingest/parse/readers/mail/eml.py",
    "parts += [replace(more[0], number=number), *more[1:]]",
    "parts += more",
    means="the messages of a mailbox have no number",
)
def test_mailbox_has_one_part_for_each_message():
    message = b"From a@x.example Mon Jan  5 10:00:00 2026\n" + PEOPLE + b"Subject: %b\n\n>From noon on.\n\n"
    text = read(message % b"One" + message % b"Two", "a.mbox")

    assert text.apart
    assert [number for _, number in text.page_starts] == [1, 2]
    assert text.text.count("From noon on.") == 2


def test_saved_page_has_no_mail_headers():
    page = mail(
        part(b"text/html", b"<h1>Ferry</h1><p>It is late.</p>"),
        part(b"image/png", b"x"),
        kind="related",
        headers=b"From: <Saved by Blink>\nSubject: Port\n",
    )
    text = read(page, "a.mht")

    assert text.title == "Port"
    assert "Saved by" not in text.text


def test_calendar_entry_is_read_as_lines():
    event = b"BEGIN:VEVENT\nSUMMARY:Board\nDTSTART;TZID=Europe/Rome:20260105T100000\nLOCATION:Room\n  3\nEND:VEVENT\n"

    assert read(mail(part(b"text/calendar", event))).text.endswith(
        "Summary: Board\nStart: 2026-01-05 10:00 (Europe/Rome)\nLocation: Room 3"
    )


def test_mail_without_text_is_refused():
    with pytest.raises(Unreadable, match="has no text inside"):
        read(b"MIME-Version: 1.0\nContent-Type: text/plain\n\n\n")
