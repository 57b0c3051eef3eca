"""Addresses of repositories, and their logins."""

import pytest

from features.sources.git.address import GitAddress, Login
from shared.domain.errors import InvalidInput
from tests.support.planted import guards


@pytest.mark.parametrize(
    ("uri", "url"),
    [
        ("git+https://example.org/team/docs.git", "https://example.org/team/docs.git"),
        ("git+http://127.0.0.1:8080/docs", "http://127.0.0.1:8080/docs"),
        ("git+https://[::1]/docs.git/", "https://[::1]/docs.git/"),
    ],
)
def test_address_of_server_is_kept(uri, url):
    address = GitAddress.parse(uri)

    assert (address.url, address.folder, address.link) == (url, None, None)


def test_address_of_folder_is_decoded():
    assert str(GitAddress.parse("git+file:///some%20where/docs.git").folder) == "/some where/docs.git"


@pytest.mark.parametrize(
    "uri",
    [
        "https://example.org/a.git", "git+ssh://example.org/a.git", "git+https:///a.git", "git+https://example.org",
        "git+https://example.org/", "git+https://example.org/a?b=c", "git+https://example.org/a#b", "git+https://[/a",
        "git+https://example.org:port/a", "git+file://host/a", "git+file:///", "a.git", "",
    ],
)  # fmt: skip
def test_other_addresses_are_rejected(uri):
    with pytest.raises(InvalidInput, match="must have the form"):
        GitAddress.parse(uri)


@pytest.mark.parametrize("login", ["token", "user:hidden", ":hidden", "user:"])
def test_login_in_address_is_rejected_not_shown(login):
    with pytest.raises(InvalidInput, match="store them as the secret") as caught:
        GitAddress.parse(f"git+https://{login}@example.org/a.git")

    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("host", "link"),
    [
        ("github.com", "https://github.com/team/docs/blob/0a1b/a%20b/%23.md"),
        ("gitlab.com", "https://gitlab.com/team/docs/-/blob/0a1b/a%20b/%23.md"),
        ("bitbucket.org", "https://bitbucket.org/team/docs/src/0a1b/a%20b/%23.md"),
        ("codeberg.org", "https://codeberg.org/team/docs/src/commit/0a1b/a%20b/%23.md"),
    ],
)
def test_usual_hosts_have_links(host, link):
    template = GitAddress.parse(f"git+https://{host}/team/docs.git").link

    assert GitAddress.link_of(template, "0a1b", "a b/#.md") == link


@guards(
    "features/sources/git/address.py",
    'return "Login(…)"',
    'return f"Login({self.password})"',
    means="errors show the token of a repository",
)
def test_login_has_no_text():
    assert "hidden" not in f"{Login('me', 'hidden')} {Login('me', 'hidden')!r}"
    assert Login.of({}) is None
