"""A folder of an object store as a source: each object is a document, whose key is its name below the folder."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from posixpath import basename
from typing import Any, TypeVar
from urllib.parse import quote

import obstore
from obstore.exceptions import BaseError, PreconditionError
from pydantic import Field, TypeAdapter, ValidationError

from features.sources.errors import COMPONENT, not_found, too_large, too_much_space, unavailable
from features.sources.files import listed
from features.sources.files.file_source import FileSource, OpenFile
from features.sources.files.s3_names import S3Names, is_representable
from features.sources.keys import problem_of, substitute_key
from features.sources.options import FileOptions, ObjectOptions, Options
from features.sources.source import Entry, Item
from shared.buckets.connection import RETRIES, Bucket, is_missing, is_refusal, network_of, open_bucket, reason_of
from shared.confined.reading import Reader, TooSlow
from shared.domain.errors import Misconfigured, Unavailable, Unreadable
from shared.settings.source_addresses import Address
from shared.settings.temporary_bytes import TEMPORARY_BYTES

K = TypeVar("K", bound="_Secret")

_PIECE_BYTES = 8 << 20
_MODIFIED = "modified:"  # start of a version without an entity tag
_ENDPOINT = "aws_endpoint_url"
_READER = "features.sources.reading.buckets"
# Variables with the credentials of foreask's own processes.
_OF_MACHINE = {"s3": ("AWS_",), "gs": ("GOOGLE_",), "az": ("AZURE_", "IDENTITY_", "MSI_")}
_HOME = "HOME"  # in which vendors' files are
_UNREPRESENTABLE = "Its name has an empty segment, a segment . or .., or a control character: rename it."
_NAME_IN_ERROR = re.compile(r'[Pp]ath "(.*?)"(?: contained empty path segment|: Encountered)', re.DOTALL)
_SHOWN_CHARS = 200  # of a name in a message
_ENDS_LISTING = (
    "The bucket cannot be listed because of the object {name}. Its name has an empty segment, a segment . or .., or a"
    " control character: rename it, or choose a folder without it. In S3 a secret with access_key_id and"
    " secret_access_key helps, too: then only such objects are refused."
)
_OUT_OF_ORDER = (
    "The store lists {key} after {last}. If two names differ only in slashes, rename one of them. Otherwise the store"
    " does not list names in the order of their bytes, and cannot be a source."
)


_NO_BUCKET = "The bucket does not exist."
_REFUSED = "The store refuses the credentials, or they may not list and read."


class _Unrepresentable(Misconfigured):
    """obstore refuses a page of a listing because of a name in it."""


@dataclass(frozen=True, slots=True)
class _BucketListing:
    """Listings of a bucket by obstore, in a process with limits: obstore has each reply in memory.

    Args:
        reader: reader of the tenant's sources.
        request: options of the process: see `features.sources.reading.buckets`.
    """

    reader: Reader
    request: Mapping[str, Any]

    async def objects(self, after: str) -> AsyncGenerator[dict[str, Any]]:
        """Yield the objects that follow a name.

        Raises:
            Misconfigured: the bucket cannot be listed.
            Unavailable: the store does not answer.
        """
        request = {**self.request, "after": after, "retries": RETRIES["max_retries"]}
        problem: listed.Problem | None = None
        try:
            async with aclosing(self.reader.connected(_READER, "listed", request, subject="its reply")) as messages:
                async for message in messages:
                    found = listed.read(message)
                    if isinstance(found, listed.Problem):
                        problem = found
                    elif isinstance(found, list):
                        for each in found:
                            yield each
        except TooSlow as error:
            raise unavailable(f"The bucket cannot be read: {error.message}.") from error
        except Unreadable as error:
            raise listed.unlistable(error.message) from error
        except ValidationError as error:
            raise listed.unlistable("its reply crashed the parser") from error
        if problem is not None:
            raise _problem(problem)


def _problem(found: listed.Problem) -> Misconfigured | Unavailable:
    match found.problem:
        case "name":
            return _Unrepresentable(_ENDS_LISTING.format(name=_name_in(found.text)), component=COMPONENT)
        case "missing":
            return _misconfigured(_NO_BUCKET)
        case "refused":
            return _misconfigured(_REFUSED)
        case _:
            return unavailable(f"The bucket cannot be read: {found.text}.")


class _Secret(Options):
    ambient: bool = Field(default=False, description="whether the credentials of foreask's own processes are used")


class S3Secret(_Secret):
    """Access to S3 or a compatible server."""

    endpoint: str | None = Field(None, pattern="^https?://", description="URL of the server; default: Amazon's")
    region: str | None = None
    access_key_id: str | None = None
    secret_access_key: str | None = None
    session_token: str | None = None


class GoogleSecret(_Secret):
    """Access to Google Cloud Storage."""

    service_account_key: str | None = Field(None, description="content of the service account's JSON file")


class AzureSecret(_Secret):
    """Access to Azure Blob Storage."""

    account: str | None = Field(None, description="name of the storage account")
    endpoint: str | None = Field(None, pattern="^https?://", description="URL of the server; default: Azure's")
    account_key: str | None = None
    sas_token: str | None = None


class ObjectSource(FileSource):
    """The objects below a prefix of a bucket.

    Args:
        bucket: the bucket with the prefix.
        listing: lists its objects.
        options: selection of its objects.
        names: lists names that obstore refuses; None: such a name is an error.
        temporary_bytes: maximum size of a copy of an object.
    """

    def __init__(
        self,
        bucket: Bucket,
        listing: _BucketListing,
        options: FileOptions,
        names: S3Names | None = None,
        temporary_bytes: int = TEMPORARY_BYTES,
    ) -> None:
        self._bucket = bucket
        self._listing = listing
        self._options = options
        self._names = names
        self._temporary_bytes = temporary_bytes

    async def entries(self, after: str = "") -> AsyncGenerator[Entry, None]:
        last, is_complete = after, False
        while not is_complete:
            try:
                if self._names is None or is_representable(last):
                    async with aclosing(self._found(last)) as objects:
                        async for found in objects:
                            last = found["path"]
                            if self._options.selects(last):
                                yield _entry(found)
                    return
            except _Unrepresentable:
                if self._names is None:
                    raise
            page = await self._names.page(last)
            for found in page.objects:
                last = _following(found["path"], last)
                is_marker = found["size"] == 0 and last.endswith("/")
                if not is_marker and self._options.selects(last):
                    yield _entry(found)
            is_complete = page.is_last

    async def _found(self, after: str) -> AsyncGenerator[Any]:
        """Yield the objects whose names follow `after`, without the markers of folders."""
        last = after
        async with aclosing(self._listing.objects(after)) as objects:
            async for found in objects:
                key = found["path"]
                # obstore ignores slashes at the end of an offset, so the first page can start earlier
                if key <= after or (found["size"] == 0 and await self._is_marker(key, last)):
                    continue
                last = _following(key, last)
                yield found

    async def find(self, key: str) -> Entry | None:
        if problem_of(key) or not self._options.selects(key):
            return None
        with _converted():
            try:
                return _entry(await obstore.head_async(self._bucket, key) | {"path": key})
            except ValueError:  # no object can have this name
                return None
            except FileNotFoundError:
                await self._require_bucket()
                return None

    async def fetch(self, entry: Entry, *, max_bytes: int) -> Item:
        with _converted():
            found = await self._get(entry)
            if found.meta["size"] > max_bytes:
                raise too_large(found.meta["size"], max_bytes)
            content = bytes(await found.bytes_async())
        return Item(content, _version(found.meta), filename=basename(entry.key))

    @asynccontextmanager
    async def opened(self, entry: Entry) -> AsyncIterator[OpenFile]:
        with tempfile.TemporaryFile(prefix="foreask-source-") as file:
            with _converted():
                found = await self._get(entry)
                size = found.meta["size"]
                if size > self._temporary_bytes:
                    raise too_much_space(f"{entry.key} needs", self._temporary_bytes)
                async for piece in found.stream(min_chunk_size=_PIECE_BYTES):
                    size -= len(piece)
                    if size < 0:
                        raise unavailable(f"The bucket cannot be read: {entry.key} has more bytes than its size.")
                    await asyncio.to_thread(file.write, piece)
            file.seek(0)
            yield OpenFile(file, _version(found.meta))

    async def _get(self, entry: Entry) -> obstore.GetResult:
        """Request the listed version of an object, or the current one if the object has changed."""
        tag = None if entry.version.startswith(_MODIFIED) else f'"{entry.version}"'
        try:
            try:
                return await obstore.get_async(self._bucket, entry.key, options={"if_match": tag} if tag else None)
            except PreconditionError:
                return await obstore.get_async(self._bucket, entry.key)
        except (FileNotFoundError, ValueError):
            await self._require_bucket()
            raise not_found(entry.key) from None

    async def _is_marker(self, key: str, last: str) -> bool:
        """Return whether an empty object marks a folder: its name ends with a slash, which obstore removes.

        Args:
            key: its name without the slash.
            last: name of the object before it in the listing.
        """
        if key <= last:
            return True
        with _converted():
            try:
                await obstore.head_async(self._bucket, key)
            except FileNotFoundError:
                return True
        return False

    async def _require_bucket(self) -> None:
        """Check that a missing object is not a missing bucket."""
        async with aclosing(self._listing.objects("")) as objects:
            async for _ in objects:
                return


def open_objects(
    address: Address,
    options: ObjectOptions,
    secret: Mapping[str, str],
    reader: Reader,
    temporary_bytes: int = TEMPORARY_BYTES,
) -> ObjectSource:
    """Return the source at an address; nothing is read yet.

    Without a secret, requests are not signed. The variables of foreask's own store, such as `AWS_ACCESS_KEY_ID`, are
    used only if the secret says so: a tenant's source must not read with the operator's rights.

    Args:
        address: `s3://bucket/prefix`, `gs://bucket/prefix` or `az://container/prefix`.
        options: options of the source.
        secret: fields of `S3Secret`, `GoogleSecret` or `AzureSecret`.
        reader: reads listings in processes.
        temporary_bytes: maximum size of a copy of an object.

    Raises:
        Misconfigured: the secret cannot be used.
    """
    configure = {"s3": _s3, "gs": _google, "az": _azure}[address.scheme]
    url = f"{address.scheme}://{address.host}/{quote(address.path)}"
    access = configure(secret, options)
    names = None
    if address.scheme == "s3" and _ENDPOINT in access["options"] and not _is_ambient(secret):
        names = _names_of(address, reader, **access)
    try:
        bucket, network = open_bucket(url, **access), network_of(url, access["options"])
    except ValueError as error:
        raise _misconfigured(f"The secret cannot be used: {error}.") from None
    keys = access.get("credentials", lambda: None)()
    request = {
        "url": url,
        "options": access["options"] | network,
        "credentials": keys and {name: value for name, value in keys.items() if name != "expires_at"},
        "environment": _variables(address.scheme) if _is_ambient(secret) else {},
    }
    return ObjectSource(bucket, _BucketListing(reader, request), options, names, temporary_bytes)


def _is_ambient(secret: Mapping[str, str]) -> bool:
    return TypeAdapter(bool).validate_python(secret.get("ambient", False))


def _variables(scheme: str) -> dict[str, str]:
    """Return the variables of foreask's own processes that a store's library reads."""
    return {name: value for name, value in os.environ.items() if name == _HOME or name.startswith(_OF_MACHINE[scheme])}


def _s3(secret: Mapping[str, str], options: ObjectOptions) -> dict[str, Any]:
    given = _read(S3Secret, secret)
    if given.ambient:
        return {"options": _set(aws_region=given.region or options.region, aws_endpoint_url=given.endpoint)}
    region = given.region or options.region or "us-east-1"
    fixed = {"aws_region": region, "aws_endpoint_url": given.endpoint or f"https://s3.{region}.amazonaws.com"}
    if given.access_key_id is None or given.secret_access_key is None:
        return {"options": fixed | {"aws_skip_signature": "true"}}
    # A provider of credentials, because obstore would add the variable AWS_SESSION_TOKEN to a key without a token.
    credentials = {
        "access_key_id": given.access_key_id,
        "secret_access_key": given.secret_access_key,
        "token": given.session_token,
        "expires_at": None,
    }
    return {"options": fixed, "credentials": lambda: credentials}


def _google(secret: Mapping[str, str], options: ObjectOptions) -> dict[str, Any]:
    del options
    given = _read(GoogleSecret, secret)
    if given.ambient:
        return {"options": {}}
    key = given.service_account_key
    return {"options": {"google_skip_signature": "true"} if key is None else {"google_service_account_key": key}}


def _azure(secret: Mapping[str, str], options: ObjectOptions) -> dict[str, Any]:
    del options
    given = _read(AzureSecret, secret)
    if given.account is None:
        raise _misconfigured("A source in Azure needs a secret with the storage account: account.")
    named = _set(azure_storage_account_name=given.account, azure_storage_endpoint=given.endpoint)
    keys = _set(azure_storage_account_key=given.account_key, azure_storage_sas_token=given.sas_token)
    return {"options": named | (keys or ({} if given.ambient else {"azure_skip_signature": "true"}))}


def _names_of(
    address: Address,
    reader: Reader,
    options: Mapping[str, str],
    credentials: Callable[[], Mapping[str, str | None]] | None = None,
) -> S3Names:
    prefix = f"{address.path}/" if address.path else ""
    signing = None if credentials is None else credentials()
    return S3Names(options[_ENDPOINT], options["aws_region"], address.host, prefix, signing, reader)


def _set(**options: str | None) -> dict[str, str]:
    return {name: value for name, value in options.items() if value is not None}


def _read(kind: type[K], secret: Mapping[str, str]) -> K:
    try:
        return kind.model_validate(dict(secret))
    except ValidationError as error:
        names = ", ".join(str(problem["loc"][0]) for problem in error.errors(include_input=False))
        fields = ", ".join(kind.model_fields)
        raise _misconfigured(f"The secret has invalid fields: {names}. Its fields are {fields}.") from None


def _entry(found: Any) -> Entry:
    key = found["path"]
    if problem := problem_of(key):
        return Entry(substitute_key(key), "", refused=problem)
    if not is_representable(key):
        return Entry(key, "", refused=_UNREPRESENTABLE)
    return Entry(key, _version(found), found["size"], None if found["size"] else "It is empty.")


def _following(key: str, last: str) -> str:
    """Return a key; raise Misconfigured unless it follows the last one."""
    if key <= last:
        raise _misconfigured(_OUT_OF_ORDER.format(key=key, last=last))
    return key


def _version(found: Any) -> str:
    """Return the entity tag; without one, the generation or the time with the size.

    Quotation marks are removed, because some stores write them in replies but not in listings; the time has whole
    seconds, because replies have no more.
    """
    if found["e_tag"]:
        return str(found["e_tag"]).removeprefix("W/").strip('"')
    return f"{_MODIFIED}{found['version'] or int(found['last_modified'].timestamp())}-{found['size']}"


@contextmanager
def _converted() -> Iterator[None]:
    """Convert errors of the store."""
    try:
        yield
    except (BaseError, OSError) as error:
        if is_missing(error):
            raise _misconfigured(_NO_BUCKET) from error
        if is_refusal(error):
            raise _misconfigured(_REFUSED) from error
        raise unavailable(f"The bucket cannot be read: {reason_of(error)}.") from error


def _name_in(words: str) -> str:
    """Return the name in the words of an error, quoted and without control characters."""
    found = _NAME_IN_ERROR.search(words)
    return repr(found[1][:_SHOWN_CHARS] if found else words.partition("\n")[0])


def _misconfigured(problem: str) -> Misconfigured:
    return Misconfigured(problem, component=COMPONENT)
