"""The original next to the text: a PDF at its page with the passage highlighted, a picture, and a spreadsheet."""

import io
import re

import pytest
from PIL import Image
from playwright.async_api import expect

from tests.page.conftest import until, visiting
from tests.page.screens import fits, require_accessible
from tests.support.pdfs import acting_pdf, japanese_pdf, pdf
from tests.support.pictures import picture, saved
from tests.support.planted import guards

ABROAD = "http://evil.example/"
FILLER = [f"Line {number} of the page speaks of the tides and of nothing else." for number in range(6)]
HARBOUR = [
    "The harbour master registers every ves-",
    "sel before its departure. A fee of 4.50 euros",
    "is due at the office.",
]
ROWS = [f"Ketch {number},{number} t,quay {number % 7}" for number in range(700)]
OPENED = """async (bytes) => {
  const folder = document.querySelector("script[type=module]").src.replace(/[^/]*$/, "");
  const { openPdf } = await import(folder + "parts/pdf.js");
  const viewer = await openPdf(new Blob([new Uint8Array(bytes)]));
  const result = %s;
  viewer.close();
  return result;
}"""
# The words of the page under the centre of each mark, and whether something is drawn there.
MARKED = """() => [...document.querySelectorAll(".page-mark")].map((mark) => {
  const box = mark.getBoundingClientRect();
  const sheet = document.querySelector(".sheet").getBoundingClientRect();
  const canvas = document.querySelector(".sheet canvas");
  const scale = canvas.width / sheet.width;
  const part = [box.x - sheet.x, box.y - sheet.y, box.width, box.height].map((each) => Math.round(each * scale));
  const pixels = canvas.getContext("2d").getImageData(...part).data;
  const isDrawn = pixels.some((value, index) => index % 4 < 3 && value < 100);
  const under = document.elementsFromPoint(box.x + box.width / 2, box.y + box.height / 2);
  return [under.find((each) => each.closest(".text-layer > span"))?.textContent, isDrawn];
})"""


@pytest.fixture(scope="module")
def originals(deployment):
    """The ids of a PDF of four chunks, a PDF of one, a PDF that acts, a picture and a spreadsheet, by name."""
    if "read" not in deployment.processes:
        deployment.worker("read")
    deployment.client.put("/v1/collections/originals", json={"chunk_max_chars": 400}).raise_for_status()
    pages = [[*FILLER, f"Page {number} is about the {subject}."] for number, subject in enumerate(["sea", "wind"], 1)]
    files = {
        "harbour.pdf": pdf([*pages, [*HARBOUR], [*FILLER, "The last page has no fee."]]),
        "dues.pdf": pdf([["The dues are paid in spring."], ["A late payer waits."]]),
        "acting.pdf": acting_pdf(["This page acts by itself, or so its author hoped."], ABROAD),
        "pier.png": saved([picture("The pier closes at night.")], "PNG"),
        "ships.csv": "\n".join(["ship,weight,place", *ROWS, ""]).encode(),
    }
    for name, content in files.items():
        form = {"collection": "originals", "external_id": name}
        deployment.client.post("/v1/documents", files={"file": (name, content)}, data=form).raise_for_status()
    settled = deployment.wait_until_settled(len(files), collection="originals")
    assert {each["external_id"]: each["state"] for each in settled} == dict.fromkeys(files, "ready")
    return {each["external_id"]: each["id"] for each in settled}


def chunk_with(deployment, document, words):
    items = deployment.client.get(f"/v1/documents/{document}/chunks?limit=200").raise_for_status().json()["items"]
    return next(each for each in items if words in each["text"])


async def marked(page):
    await expect(page.locator(".page-mark").first).to_be_visible()
    found = await page.evaluate(MARKED)
    assert all(is_drawn for _, is_drawn in found), found
    return [words for words, _ in found]


async def test_pdf_opens_at_page_with_passage_highlighted(visit, deployment, originals):
    page, document = visit.page, originals["harbour.pdf"]
    chunk = chunk_with(deployment, document, "departure")
    assert chunk["page"] == 3
    await visit.go(f"/documents/{document}?chunk={chunk['id']}")
    await page.get_by_role("button", name="Open at page 3").click()
    await expect(page.locator(".original [role=status]")).to_have_text("Page 3 of 4. The passage is highlighted.")
    assert await marked(page) == HARBOUR
    await expect(page.get_by_role("heading", name="harbour.pdf").last).to_be_focused()
    await expect(page.locator(".text-layer")).to_contain_text("registers every ves-")


async def test_cited_sentence_is_highlighted_on_page(visit, deployment, originals):
    page, document = visit.page, originals["harbour.pdf"]
    chunk = chunk_with(deployment, document, "departure")
    cited = f"{chunk['text'].index('A fee')}-{chunk['text'].index('office.') + len('office.')}"
    await visit.go(f"/documents/{document}?chunk={chunk['id']}&view=original&cited={cited}")
    await expect(page.locator(".original [role=status]")).to_have_text(
        "Page 3 of 4. The cited sentence is highlighted."
    )
    assert await marked(page) == HARBOUR[1:]
    [first, _] = await page.evaluate("[...document.querySelectorAll('.page-mark')].map((mark) => mark.offsetLeft)")
    left = await page.locator(".text-layer > span", has_text="sel before").evaluate("(span) => span.offsetLeft")
    assert first > left + 50  # the words in front of the sentence are not marked


@guards(
    "api/web/parts/pdf.js",
    "const CONTINUED = 3;",
    "const CONTINUED = 1;",
    means="a passage is looked for only on the page on which it starts",
)
@guards(
    "api/web/parts/pdf.js",
    "first + (found.marks[0]?.page ?? 0)",
    "first",
    means="a PDF opens where the passage starts, not at the cited sentence",
)
async def test_sentence_on_next_page_of_passage_opens_there(visit, deployment, originals):
    page, document = visit.page, originals["dues.pdf"]
    chunk = chunk_with(deployment, document, "dues")
    assert chunk["page"] == 1
    status = page.locator(".original [role=status]")
    await visit.go(f"/documents/{document}?chunk={chunk['id']}&view=original")
    await expect(status).to_have_text("Page 1 of 2. The passage is highlighted. It continues on page 2.")
    assert await marked(page) == ["The dues are paid in spring."]

    cited = f"{chunk['text'].index('A late')}-{len(chunk['text'])}"
    await visit.go(f"/documents/{document}?chunk={chunk['id']}&view=original&cited={cited}")
    await expect(status).to_have_text("Page 2 of 2. The cited sentence is highlighted.")
    assert await marked(page) == ["A late payer waits."]


async def test_originals_are_accessible(visit, originals):
    page = visit.page
    await page.emulate_media(reduced_motion="reduce")  # colours change at once
    for name, shown in {"harbour.pdf": ".page-mark", "ships.csv": ".cited-row", "pier.png": ".original img"}.items():
        await visit.go(f"/documents/{originals[name]}?view=original")
        await expect(page.locator(shown).first).to_be_attached()
        for scheme in ("light", "dark"):
            await page.emulate_media(color_scheme=scheme)
            await require_accessible(page, f"{name} {scheme}", only_colours=scheme == "dark")


async def test_passage_missing_on_page_is_not_highlighted(visit, deployment, originals):
    page, document = visit.page, originals["harbour.pdf"]
    chunk = chunk_with(deployment, document, "departure")
    other = pdf([["Another text, which has no vessel."]] * 4)
    await page.route("**/content?*", lambda route: route.fulfill(body=other, content_type="application/pdf"))
    await visit.go(f"/documents/{document}?chunk={chunk['id']}&view=original")
    await expect(page.locator(".original [role=status]")).to_have_text(
        "Page 3 of 4. The passage was not found on this page, so nothing is highlighted."
    )
    await expect(page.locator(".text-layer")).to_contain_text("Another text")
    await expect(page.locator(".page-mark")).to_have_count(0)


async def test_citation_of_answer_opens_original_at_page(visit, deployment, originals):
    page = visit.page
    await visit.go("/ask?collection=originals")
    await page.fill("#question", "Which fee is due at the office of the harbour master for a vessel?")
    await page.keyboard.press("Enter")
    await page.locator(".sources button", has_text="harbour").first.click()
    await page.get_by_role("link", name="Open at page 3").click()
    await expect(page.locator(".original [role=status]")).to_have_text(
        re.compile(r"Page 3 of 4\. The .* highlighted\.")
    )
    assert set(await marked(page)) <= set(HARBOUR)


async def test_pages_are_turned_and_zoomed_by_keyboard(visit, deployment, originals):
    page, document = visit.page, originals["harbour.pdf"]
    chunk = chunk_with(deployment, document, "departure")
    await visit.go(f"/documents/{document}?chunk={chunk['id']}")
    opener = page.get_by_role("button", name="Open at page 3")
    await opener.focus()
    await page.keyboard.press("Enter")
    sheet, status = page.locator(".sheet"), page.locator(".original [role=status]")
    await expect(sheet).to_have_attribute("data-page", "3")
    await page.keyboard.press("ArrowRight")
    await expect(sheet).to_have_attribute("data-page", "4")
    await expect(status).to_have_text("Page 4 of 4. The passage is on page 3.")
    await expect(page.get_by_role("button", name="Next page")).to_be_disabled()
    await expect(page.locator(".page-mark")).to_have_count(0)
    await page.keyboard.press("ArrowLeft")
    await expect(page.locator(".page-mark").first).to_be_visible()
    width = (await sheet.bounding_box())["width"]
    box = await page.locator(".sheet-box").evaluate("(box) => box.clientWidth")
    assert abs(width - box) < 2
    await page.keyboard.press("+")
    await until(lambda: sheet.evaluate("(sheet, width) => sheet.clientWidth > 1.2 * width", width))
    assert await marked(page) == HARBOUR
    await page.keyboard.press("0")
    await until(lambda: sheet.evaluate("(sheet, width) => Math.abs(sheet.clientWidth - width) < 2", width))
    await page.keyboard.press("Escape")
    await expect(page.locator(".original")).to_have_count(0)
    await expect(opener).to_be_focused()


async def test_pdf_that_acts_by_itself_does_nothing(visit, deployment, originals):
    page, document = visit.page, originals["acting.pdf"]
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.context.on("page", lambda opened: visit.faults.append(f"opened {opened.url}"))
    await visit.go(f"/documents/{document}")
    await page.get_by_role("button", name="Open at page 1").click()
    await expect(page.locator(".original [role=status]")).to_have_text("Page 1 of 1. The passage is highlighted.")
    address = page.url
    await page.locator(".sheet").click(position={"x": 40, "y": 500})
    await page.keyboard.press("Tab")
    await expect(page.locator(".original :is(a, input, textarea, iframe, object, embed)")).to_have_count(0)
    assert page.url == address
    assert not any(url.startswith(ABROAD) for url in requests)


async def test_acting_pdf_has_scripts_and_link(visit):
    """Its scripts and its link are valid, so that the test above would see them act."""
    await visit.go("/ask")
    read = "[[...await viewer.file.getJSActions()], await (await viewer.file.getPage(1)).getAnnotations()]"
    scripts, annotations = await visit.page.evaluate(OPENED % read, [*acting_pdf(["Text"], ABROAD)])
    assert "app.alert(1)" in str(scripts)
    assert [each["subtype"] for each in annotations] == ["Link", "Widget"]
    assert annotations[0]["url"] == ABROAD


@pytest.mark.parametrize(("mode", "decoder"), [("1", b"/CCITTFaxDecode"), ("RGBA", b"/JPXDecode")])
async def test_picture_of_page_is_decoded_without_webassembly(visit, mode, decoder):
    file = io.BytesIO()
    white, black = {"1": (1, 0), "RGBA": ((255, 255, 255, 255), (0, 0, 0, 255))}[mode]
    image = Image.new(mode, (400, 400), white)
    image.paste(black, (100, 100, 300, 300))
    image.save(file, "PDF")
    assert decoder in file.getvalue()
    await visit.go("/ask")
    shown = """await (async () => {
      document.body.append(viewer.box);
      await viewer.show({ page: 1, text: "Words", span: [0, 5] }, []);
      const canvas = viewer.sheet.querySelector("canvas");
      const [x, y] = [canvas.width, canvas.height];
      const color = (...place) => canvas.getContext("2d").getImageData(...place.map(Math.round), 1, 1).data[0];
      return [color(x / 2, y / 2), color(x / 8, y / 8), viewer.note()];
    })()"""
    middle, corner, note = await visit.page.evaluate(OPENED % shown, [*file.getvalue()])
    assert (middle < 30, corner > 225) == (True, True)
    assert note == "Page 1 of 1. This page is a picture without text, so the passage cannot be highlighted."


async def test_worker_of_pdfs_reaches_nothing(visit, originals):
    await visit.go("/ask")
    visit.allowed = ("Content Security Policy", "Trusted", "Refused")
    policy = await visit.page.evaluate("""async () => {
      const folder = document.querySelector("script[type=module]").src.replace(/[^/]*$/, "");
      const reply = await fetch(`${folder}vendor/pdfjs/pdf.worker.min.mjs`);
      let other = "started";
      try { new Worker(`${folder}vendor/pdfjs/pdf.worker.min.mjs`); } catch (error) { other = error.name; }
      return [reply.headers.get("content-security-policy"), reply.headers.get("content-type"), other];
    }""")
    assert policy == ["default-src 'none'; script-src 'self'", "text/javascript; charset=utf-8", "TypeError"]


async def test_text_in_encoding_outside_file_is_read(visit, originals):
    await visit.go("/ask")
    words = "\u6e2f\u306f\u516d\u6642\u306b\u958b\u304d\u307e\u3059"
    strings = await visit.page.evaluate(OPENED % "(await viewer.textOf(1)).strings", [*japanese_pdf(words)])
    assert strings == [words]


async def test_picture_is_shown_by_its_bytes(visit, deployment, originals):
    page, document = visit.page, originals["pier.png"]
    await visit.go(f"/documents/{document}")
    await page.get_by_role("button", name="Show picture").click()
    image = page.locator(".original img")
    await until(lambda: image.evaluate("(image) => image.naturalWidth"))
    await expect(page.locator(".original [role=status]")).to_have_text("The original picture.")
    await page.keyboard.press("Escape")

    drawing = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script><rect width="9" height="9"/></svg>'
    await page.route("**/content?*", lambda route: route.fulfill(body=drawing, content_type="image/svg+xml"))
    await page.get_by_role("button", name="Show picture").click()
    await expect(page.locator(".original [role=status]")).to_have_text(re.compile("not a picture"))
    await expect(image).to_have_count(0)


async def test_spreadsheet_is_table_with_cited_rows(visit, deployment, originals):
    page, document = visit.page, originals["ships.csv"]
    chunk = chunk_with(deployment, document, "Ketch 432 ")
    rows = re.findall(r"Ketch \d+", chunk["text"])
    await visit.go(f"/documents/{document}?chunk={chunk['id']}")
    await page.get_by_role("button", name="Show table").click()
    await expect(page.locator(".original [role=status]")).to_have_text("The rows of the passage are marked.")
    names = page.locator(".original .cited-row td:first-child")
    await expect(names).to_have_text(rows)
    await expect(names.first).to_be_in_viewport()
    await expect(page.locator(".original thead th")).to_have_text(["ship", "weight", "place"])
    await page.get_by_role("button", name="Show earlier rows").click()
    await expect(page.locator(".original td", has_text=re.compile("^Ketch 0$"))).to_be_attached()

    start = chunk["text"].index("| Ketch 432 ")
    cited = f"{start}-{start + 12}"
    await visit.go(f"/documents/{document}?chunk={chunk['id']}&view=original&cited={cited}")
    await expect(names).to_have_text(["Ketch 432"])


async def test_missing_original_is_explained(visit, deployment, originals):
    page, document = visit.page, originals["harbour.pdf"]
    visit.allowed = ("404",)
    reply = {"status": 404, "detail": "The stored file is missing: upload it again."}
    await page.route("**/content?*", lambda route: route.fulfill(status=404, json=reply))
    await visit.go(f"/documents/{document}?view=original")
    await expect(page.locator(".original [role=status]")).to_have_text(reply["detail"])
    await expect(page.locator(".detail .marked")).to_be_visible()


@pytest.mark.parametrize("width", [1360, 360])
async def test_original_fits_window_next_to_text(browser, deployment, originals, width):
    document = originals["harbour.pdf"]
    chunk = chunk_with(deployment, document, "departure")
    base = f"http://127.0.0.1:{deployment.port}"
    async with visiting(browser, base, viewport={"width": width, "height": 850}, color_scheme="dark") as visit:
        page = visit.page
        await visit.go(f"/documents/{document}?chunk={chunk['id']}&view=original")
        assert await marked(page) == HARBOUR
        sheet, text = await page.locator(".sheet").bounding_box(), await page.locator(".detail .marked").bounding_box()
        assert sheet["width"] <= width
        assert text["x"] >= sheet["x"] + sheet["width"] or text["y"] >= 500
        assert await fits(page)
