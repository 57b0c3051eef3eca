"""Kinds of sources: which addresses they have, how their options are checked, and how they are opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from shared.domain.errors import InvalidInput, Misconfigured
from shared.sources.addresses import BUCKETS, Address
from shared.sources.files import COMPONENT, FileSource
from shared.sources.folder import FolderSource
from shared.sources.objects import ObjectOptions, open_objects
from shared.sources.options import FileOptions, Options, read_options
from shared.sources.roots import Roots, without_links
from shared.sources.rows import RowOptions, RowSource, is_table
from shared.sources.source import Source

P = TypeVar("P", bound=Options)

_URI = "uri"  # field of every secret: the addresses for which it may be used


@dataclass(frozen=True, slots=True)
class Kind(Generic[P]):
    """A kind of source.

    Args:
        schemes: schemes of its addresses.
        options: model of its options.
        open: opens a source of an address, with its options and the fields of its secret; nothing is read yet.
        claims: whether it opens an address with one of its schemes; a later kind opens the others.
        resolve: returns the address that is checked and opened.
    """

    schemes: tuple[str, ...]
    options: type[P]
    open: Callable[[Address, P, Mapping[str, str]], Source]
    claims: Callable[[Address], bool] = lambda _: True
    resolve: Callable[[Address], Address] = without_links


def _open_folder(address: Address, options: FileOptions, secret: Mapping[str, str]) -> FileSource:
    del secret
    return FolderSource(Path("/", *address.segments), options)


def _open_rows(address: Address, options: RowOptions, secret: Mapping[str, str]) -> Source:
    folder, name = _table_of(address)
    single = None if "*" in name else name
    include = () if single else (name,)
    selection = ObjectOptions(include=include, exclude=options.exclude, hidden=True, region=options.region)
    open_files = _open_folder if folder.scheme == "file" else open_objects
    return RowSource(open_files(folder, selection, secret), options, single)


def _table_of(address: Address) -> tuple[Address, str]:
    """Return the folder of an address of tables, and the name or pattern below it."""
    patterns = [index for index, segment in enumerate(address.segments) if "*" in segment]
    start = patterns[0] if patterns else len(address.segments) - 1
    folder, name = address.segments[:start], "/".join(address.segments[start:])
    uri = f"{address.scheme}://{address.host}/{quote('/'.join(folder))}"
    return Address(uri, address.scheme, address.host, folder), name


def _resolve_table(address: Address) -> Address:
    """Return the address without links in its folder. A table keeps its name, whose ending shows its format."""
    folder, name = _table_of(address)
    return replace(address, segments=(*without_links(folder).segments, *name.split("/")))


def _is_table(address: Address) -> bool:
    return bool(address.segments) and is_table(address.segments[-1])


def _is_folder(address: Address) -> bool:
    return not any("*" in segment for segment in address.segments)


# The first kind that claims an address opens it.
KINDS: Mapping[str, Kind[Any]] = {
    "rows": Kind(("file", *BUCKETS), RowOptions, _open_rows, _is_table, _resolve_table),
    "folder": Kind(("file",), FileOptions, _open_folder, _is_folder),
    "objects": Kind(BUCKETS, ObjectOptions, open_objects, _is_folder),
}


def kind_of(uri: str) -> str:
    """Return the name of the kind of source that an address has.

    Raises:
        InvalidInput: the address is malformed, or no kind has its scheme.
    """
    address = Address.parse(uri)
    for name, kind in KINDS.items():
        if address.scheme in kind.schemes and kind.claims(address):
            return name
    schemes = dict.fromkeys(scheme for kind in KINDS.values() for scheme in kind.schemes)
    if address.scheme in schemes:
        sentence = (
            "A pattern is possible at the end of an address of tables only: use the option include=*.md for files."
        )
        raise InvalidInput(sentence, field="uri")
    sentence = f"A source cannot have the scheme {address.scheme}: the schemes are {', '.join(schemes)}."
    raise InvalidInput(sentence, field="uri")


def check(kind: str, uri: str, options: Mapping[str, Any], roots: Roots) -> None:
    """Check the definition of a source, without reading it.

    Raises:
        InvalidInput: the address is malformed or not allowed, or an option cannot be used; `field` names the part.
    """
    _checked(kind, uri, options, roots)


def open_source(
    kind: str, uri: str, options: Mapping[str, Any], secret: Mapping[str, str] | None, roots: Roots
) -> Source:
    """Open a source; nothing is read yet.

    Args:
        kind: its kind, a name in `KINDS`.
        uri: its address.
        options: its options.
        secret: fields of its secret; None if it has none.
        roots: allowed addresses of its tenant, which are checked again because the operator may have removed one.

    Raises:
        Misconfigured: `check` refuses it now, or the secret cannot be used.
    """
    try:
        address, read = _checked(kind, uri, options, roots)
    except InvalidInput as error:
        raise Misconfigured(error.message, component=COMPONENT) from error
    source: Source = KINDS[kind].open(address, read, _fields_of(secret, address))
    return source


def _checked(kind: str, uri: str, options: Mapping[str, Any], roots: Roots) -> tuple[Address, Options]:
    if kind not in KINDS:
        raise InvalidInput(f"There is no kind {kind}; the kinds are {', '.join(KINDS)}.", field="kind")
    address = Address.parse(uri)
    if address.scheme not in KINDS[kind].schemes or not KINDS[kind].claims(address):
        raise InvalidInput(f"A source of the kind {kind} cannot have this address.", field="uri")
    address = KINDS[kind].resolve(address)
    roots.require(address)
    return address, read_options(KINDS[kind].options, options)


def _fields_of(secret: Mapping[str, str] | None, address: Address) -> dict[str, str]:
    """Return the fields of a secret without its address.

    A secret names the addresses for which it may be used, because tenants name secrets in their sources: without the
    address, a tenant could read with the credentials of another one.

    Raises:
        Misconfigured: the secret may not be used for this address.
    """
    if secret is None:
        return {}
    if _URI not in secret:
        problem = f'The secret needs the field {_URI}, such as "{_URI}": "s3://bucket/", for its addresses.'
        raise Misconfigured(problem, component=COMPONENT)
    if not address.is_below(Address.parse(secret[_URI])):
        raise Misconfigured(f"The secret may not be used for {address.uri}.", component=COMPONENT)
    return {name: value for name, value in secret.items() if name != _URI}
