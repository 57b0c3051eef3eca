"""A signed address of S3 accepts a body of one size: its signature equals the one of Amazon's own library."""

from datetime import datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import botocore.auth
import obstore
import pytest
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from obstore.store import from_url

from shared.storage.signing import secret_of, with_length
from tests.support.planted import guards

SECRET = "the/secret+key"  # noqa: S105
KEYS = {"aws_access_key_id": "id", "aws_secret_access_key": SECRET, "aws_region": "eu-central-1"}
SECONDS = 900


def offered(**options):
    store = from_url("s3://bucket/pre fix", config=KEYS | options, client_options={"allow_http": True})
    return obstore.sign(store, "PUT", "sent/acme/a b~c", timedelta(seconds=SECONDS))


def signature_of_amazon(url, token, monkeypatch):
    """Return the signature of Amazon's library for the same time, address and headers."""
    parts, query = urlsplit(url), parse_qs(urlsplit(url).query)
    at = datetime.strptime(query["X-Amz-Date"][0], "%Y%m%dT%H%M%SZ")  # noqa: DTZ007
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda *_, **__: at)
    request = AWSRequest("PUT", f"{parts.scheme}://{parts.netloc}{parts.path}", headers={"content-length": "1234"})
    botocore.auth.S3SigV4QueryAuth(Credentials("id", SECRET, token), "s3", "eu-central-1", SECONDS).add_auth(request)
    return parse_qs(urlsplit(request.url).query)["X-Amz-Signature"]


@guards(
    "shared/storage/signing.py",
    'query[_SIGNED] = ";".join(headers)',
    "query[_SIGNED] = query[_SIGNED]",
    means="an address for one byte accepts any number",
)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"aws_virtual_hosted_style_request": "true"},
        {"aws_endpoint_url": "http://127.0.0.1:9000"},
        {"aws_session_token": "tok/en+=="},
    ],
)
def test_signed_length_equals_signature_of_amazons_library(options, monkeypatch):
    url = with_length(offered(**options), SECRET, 1234)

    query = parse_qs(urlsplit(url).query)
    assert query["X-Amz-SignedHeaders"] == ["content-length;host"]
    assert query["X-Amz-Signature"] == signature_of_amazon(url, options.get("aws_session_token"), monkeypatch)


def test_secret_of_other_credentials_signs_nothing():
    assert with_length(offered(), "another", 1234) is None


def test_secret_is_option_or_variable(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "variable")

    assert secret_of(KEYS) == SECRET
    assert secret_of({}) == "variable"
