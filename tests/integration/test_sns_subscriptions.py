"""Subscriptions of Amazon SNS are confirmed, and only addresses of SNS are requested for this."""

import httpx
import pytest

from features.sources.hints.subscriptions import confirm, is_of_amazon
from shared.domain.errors import Unavailable
from shared.outside import addresses

QUERY = "Action=ConfirmSubscription&TopicArn=arn:aws:sns:eu-west-1:1:corpus&Token=2336"
URL = f"https://sns.eu-west-1.amazonaws.com/?{QUERY}"


@pytest.fixture
def found(monkeypatch):
    """Return the addresses of each name, which the test may change."""
    found = ["93.184.216.34"]
    monkeypatch.setattr(addresses.socket, "getaddrinfo", lambda *_, **__: [(2, 1, 6, "", (a, 443)) for a in found])
    return found


class Sns:
    """A network in which each request is answered with one status."""

    def __init__(self, status):
        self.status = status
        self.requests = []
        self.client = httpx.AsyncClient(transport=httpx.MockTransport(self.answer))

    def answer(self, request):
        self.requests.append(request)
        return httpx.Response(self.status, headers={"location": "http://127.0.0.1/"})


@pytest.mark.parametrize(
    "url", [URL, URL.replace(".com/", ".com"), URL.replace("eu-west-1.amazonaws.com", "cn-north-1.amazonaws.com.cn")]
)
def test_address_of_sns_is_amazons(url):
    assert is_of_amazon(url)


@pytest.mark.parametrize(
    "url",
    [
        URL.replace("https:", "http:"),
        URL.replace("sns.", "sqs."),
        URL.replace("amazonaws.com", "amazonaws.com.example.org"),
        URL.replace("sns.eu-west-1", "sns.eu.west"),
        URL.replace("sns.eu-west-1.amazonaws.com", "169.254.169.254"),
        URL.replace(".com/", ".com:8443/"),
        URL.replace("https://", "https://sns.eu-west-1.amazonaws.com@"),
        URL.replace("https://sns", "https://example.org\\@sns"),
        URL.replace(".com/?", ".com/other?"),
        URL.replace("ConfirmSubscription", "Publish"),
        URL + "&Action=Publish",
        "https://sns.eu-west-1.amazonaws.com/",
        "file:///etc/passwd",
        "",
    ],
)
def test_other_address_is_not_amazons(url):
    assert not is_of_amazon(url)


async def test_confirmation_is_sent_to_checked_address(found):
    sns = Sns(200)

    await confirm(URL, sns.client)

    (request,) = sns.requests
    assert (request.method, request.url.host, request.url.query.decode()) == ("GET", found[0], QUERY)
    assert request.headers["host"] == "sns.eu-west-1.amazonaws.com"
    assert request.extensions["sni_hostname"] == "sns.eu-west-1.amazonaws.com"


async def test_private_address_receives_no_confirmation(found):
    found[:] = ["93.184.216.34", "169.254.169.254"]
    sns = Sns(200)

    with pytest.raises(Unavailable, match="private"):
        await confirm(URL, sns.client)
    assert sns.requests == []


@pytest.mark.parametrize("status", [302, 403, 503])
async def test_refused_confirmation_is_error_without_redirect(found, status):
    sns = Sns(status)

    with pytest.raises(Unavailable, match=str(status)):
        await confirm(URL, sns.client)
    assert [request.url.host for request in sns.requests] == found


async def test_unreachable_sns_is_error(found):
    def fail(request):
        raise httpx.ConnectError("no route", request=request)

    with pytest.raises(Unavailable, match="SNS does not answer"):
        await confirm(URL, httpx.AsyncClient(transport=httpx.MockTransport(fail)))
