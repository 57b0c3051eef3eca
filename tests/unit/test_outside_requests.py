"""A request to a checked address names the host that the address belongs to."""

from urllib.parse import urlsplit

from shared.outside.requests import new_client, pinned
from tests.support.planted import guards


@guards(
    "shared/outside/requests.py",
    '{"host": parts.netloc,',
    '{"host": parts.hostname or "",',
    means="a request to a checked address names its host without the port",
)
def test_request_to_checked_address_names_the_host():
    request = pinned(new_client(1), "GET", urlsplit("https://docs.example:8443/a?b=1"), "192.0.2.7", headers={})

    assert str(request.url) == "https://192.0.2.7:8443/a?b=1"
    assert request.headers["host"] == "docs.example:8443"
    assert request.extensions["sni_hostname"] == "docs.example"
