"""Persons in the page: signing in at the provider of `oidc-provider-mock`, coming back, staying and signing out."""

import json
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import expect

from tests.page.conftest import OURS, another_api, api_keys, visiting
from tests.page.screens import require_accessible
from tests.support.oidc_provider import providing

ADA = {"sub": "ada-7", "name": "Ada Lovelace", "email": "ada@example.com", "groups": ["legal"]}


@pytest.fixture
async def provider():
    async with providing(ADA) as url:
        yield url


@pytest.fixture
def signing(deployment, provider):
    """A client of an API at which persons sign in."""
    settings = {
        "api_keys": api_keys(default=OURS),
        "oidc_issuer": provider,
        "oidc_client_id": "foreask-page",
        "oidc_client_secret": "any",  # the package refuses a client without one
    }
    with another_api(deployment, "signing", OURS, **settings) as client:
        yield client


@asynccontextmanager
async def visiting_both(browser, client, **options):
    """Open a tab that also visits the provider, whose page loads styles from another server."""
    async with visiting(browser, str(client.base_url).rstrip("/"), **options) as visit:
        visit.allowed = ("401",)
        on_request, on_console = visit._on_request, visit._on_console
        is_own = lambda: visit.page.url.startswith(visit.base)  # noqa: E731
        visit._on_request = lambda url: on_request(url) if is_own() and not is_navigation(url) else None
        visit._on_console = lambda *message: on_console(*message) if is_own() else None
        yield visit


def is_navigation(url):
    return "/oauth2/" in url  # to the provider, to sign in or out


async def authorize(page):
    """Choose the user in the form of the provider."""
    await page.get_by_role("button", name="ada-7").click()


async def test_person_signs_in_and_returns_to_screen(browser, signing, deployment):
    async with visiting_both(browser, signing) as visit:
        page = visit.page
        addresses = []
        page.on("request", lambda each: addresses.append(each.url))
        await visit.go("/documents?q=travel")
        await expect(page.get_by_role("dialog")).to_contain_text("Sign in to use this server.")
        await require_accessible(page, "dialog")
        await page.get_by_role("dialog").get_by_role("button", name="Sign in").click()
        await authorize(page)

        await expect(page.get_by_text("Ada Lovelace")).to_be_visible()
        await expect(page.locator(".row")).to_have_count(1)
        assert page.url.startswith(f"{visit.base}/documents?q=travel")
        await require_accessible(page, "signed in")
        stored = json.loads(await page.evaluate("sessionStorage.getItem('foreask.person')"))
        secrets = [stored["token"], stored["refresh"]]
        assert not any(secret in each for secret in secrets for each in addresses)
        lasting = await page.evaluate("JSON.stringify(localStorage)")
        assert not any(secret in lasting for secret in secrets)
        (code,) = [parse_qs(urlsplit(each).query)["code"][0] for each in addresses if "/signed-in?" in each]
        log = (deployment.data_dir / "logs" / "signing.log").read_text()
        assert not any(secret in log for secret in [*secrets, code, "ada-7", "Ada"])

        await page.get_by_role("button", name="Sign out").click()
        await page.get_by_role("button", name="End session").click()
        await expect(page.get_by_role("dialog")).to_contain_text("Sign in to use this server.")
        assert await page.evaluate("sessionStorage.getItem('foreask.person')") is None


async def test_refused_sign_in_can_start_again(browser, signing):
    async with visiting_both(browser, signing) as visit:
        await visit.go("/signed-in?error=access_denied&state=x")
        await expect(visit.page.get_by_role("alert")).to_contain_text("This sign-in has expired.")
        assert visit.page.url == f"{visit.base}/signed-in"
        await require_accessible(visit.page, "refused")
        await visit.page.get_by_role("button", name="Sign in again").click()
        await authorize(visit.page)
        await expect(visit.page.get_by_text("Ada Lovelace")).to_be_visible()
        await expect(visit.page.locator("#question")).to_be_visible()


async def test_key_is_accepted_next_to_sign_in(browser, signing):
    async with visiting_both(browser, signing) as visit:
        await visit.go("/documents")
        await visit.page.get_by_text("Use an API key").click()
        await visit.page.get_by_role("textbox", name="Key").fill(OURS)
        await visit.page.get_by_role("button", name="Continue").click()
        await expect(visit.page.locator(".row").first).to_be_visible()
        await expect(visit.page.get_by_role("button", name="Remove key")).to_be_visible()
