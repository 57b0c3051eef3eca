"""Kinds of sources: which addresses they have, how their options are checked, and how they are opened.

The modules of a kind are imported when its first source is opened. With all of them a worker that opens none would
start 0.2 s later, with 10 MB more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote

from features.sources.errors import COMPONENT
from features.sources.files.file_source import FileSource
from features.sources.files.folder import FolderSource
from features.sources.git.options import FOLDER_PREFIX as OF_GIT
from features.sources.git.options import GitOptions
from features.sources.hosts import Hosts
from features.sources.options import FileOptions, FolderOptions, ObjectOptions, Options, read_options
from features.sources.postgres.options import PostgresOptions
from features.sources.push.options import PushOptions
from features.sources.source import Source
from features.sources.tables.rows import RowOptions, RowSource, is_table
from features.sources.web.crawl.texts import FOLDER_PREFIX as OF_PAGES
from features.sources.web.options import CrawlOptions, FeedOptions, ListOptions, PageOptions, SitemapOptions
from shared.confined.reading import Reader
from shared.domain.errors import InvalidInput, Misconfigured
from shared.settings.source_addresses import BUCKETS, OF_FOLDERS, Address
from shared.settings.source_roots import Roots, without_links
from shared.settings.temporary_bytes import TEMPORARY_BYTES

if TYPE_CHECKING:
    from features.sources.git.stored_packs import Packs
    from features.sources.web.source import Web

P = TypeVar("P", bound=Options)

FOLDER_PREFIXES = (OF_GIT, OF_PAGES)  # of temporary folders

_URI = "uri"  # field of every secret: the addresses for which it may be used


@dataclass(frozen=True, slots=True)
class Access:
    """Means to read a source, apart from its address.

    Args:
        secret: fields of its secret.
        web: returns the dependencies of sources of pages; None if the process reads no pages.
        reader: reads contents in a confined process; None if the process opens no sources of contents that are read.
        hosts: hosts of other sources that may be reached.
        temporary_bytes: bytes that it may store in temporary files.
        packs: returns the packs of a repository that other processes read, too.
    """

    secret: Mapping[str, str]
    web: Callable[[], Web] | None
    reader: Reader | None
    hosts: Hosts
    temporary_bytes: int
    packs: Callable[[], Packs | None]


@dataclass(frozen=True, slots=True)
class Kind(Generic[P]):
    """A kind of source.

    Args:
        schemes: schemes of its addresses.
        options: model of its options.
        open: opens a source of an address; nothing is read yet.
        claims: whether it opens an address with one of its schemes.
        is_usual: whether an address that it claims usually has this kind, if its owner names none.
        resolve: returns the address that is checked and opened.
        is_read: whether foreask reads the address, so that it must be below a root.
    """

    schemes: tuple[str, ...]
    options: type[P]
    open: Callable[[Address, P, Access], Source]
    claims: Callable[[Address], bool] = lambda _: True
    is_usual: Callable[[Address], bool] = lambda _: True
    resolve: Callable[[Address], Address] = without_links
    is_read: bool = True


def _open_folder(address: Address, options: FileOptions, access: Access) -> FileSource:
    del access
    return FolderSource(Path("/", *address.segments), options)


def _open_objects(address: Address, options: ObjectOptions, access: Access) -> FileSource:
    from features.sources.files.objects import open_objects

    return open_objects(address, options, access.secret, _reader(access), access.temporary_bytes)


def _open_rows(address: Address, options: RowOptions, access: Access) -> Source:
    folder, name = _table_of(address)
    single = None if "*" in name else name
    include = () if single else (name,)
    selection = ObjectOptions(include=include, exclude=options.exclude, hidden=True, region=options.region)
    open_files = _open_folder if folder.scheme == "file" else _open_objects
    if access.reader is None:
        raise Misconfigured("Only parse workers read tables.", component=COMPONENT)
    return RowSource(open_files(folder, selection, access), options, access.reader, access.temporary_bytes, single)


def _open_repository(address: Address, options: GitOptions, access: Access) -> Source:
    from features.sources.git.repositories import GitSource

    is_folder = address.scheme in OF_FOLDERS  # its links were resolved after the address was written
    uri = f"{address.scheme}:///{quote(address.path)}" if is_folder else address.uri
    packs = None if is_folder else access.packs()
    return GitSource(uri, options, access.secret, access.hosts, _reader(access), packs=packs)


def _reader(access: Access) -> Reader:
    if access.reader is None:
        raise Misconfigured("Only parse workers and read workers read sources.", component=COMPONENT)
    return access.reader


def _open_database(address: Address, options: PostgresOptions, access: Access) -> Source:
    from features.sources.postgres.rows import PostgresSource

    return PostgresSource(address.uri, options, access.secret, access.hosts, access.temporary_bytes)


def _open_pushed(address: Address, options: PushOptions, access: Access) -> Source:
    del address, options, access
    raise Misconfigured("A program pushes the entries of this source: foreask cannot list them.", component=COMPONENT)


def _open_pages(address: Address, options: PageOptions, access: Access) -> Source:
    from features.sources.web.source import open_pages

    if access.web is None:
        raise Misconfigured("Only parse workers read pages.", component=COMPONENT)
    return open_pages(address.uri, options, access.web())


def _pages(options: type[PageOptions], *endings: str) -> Kind[PageOptions]:
    """Return a kind of pages, which an address usually has if its path ends like this."""
    return Kind(
        ("https", "http"),
        options,
        _open_pages,
        is_usual=lambda address: address.path.lower().endswith(endings or ("",)),
    )


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


# An address whose owner names no kind has the first kind that claims it and is usual for it.
KINDS: Mapping[str, Kind[Any]] = {
    "rows": Kind(("file", *BUCKETS), RowOptions, _open_rows, _is_table, resolve=_resolve_table),
    "folder": Kind(("file",), FolderOptions, _open_folder, _is_folder),
    "objects": Kind(BUCKETS, ObjectOptions, _open_objects, _is_folder),
    "git": Kind(("git+https", "git+http", "git+file"), GitOptions, _open_repository),
    "postgresql": Kind(("postgresql",), PostgresOptions, _open_database),
    "sitemap": _pages(SitemapOptions, "sitemap.xml", "sitemap.xml.gz", "sitemap_index.xml"),
    "rss": _pages(FeedOptions, ".rss", ".atom", "feed.xml", "rss.xml", "atom.xml"),
    "list": _pages(ListOptions, ".txt"),
    "crawl": _pages(CrawlOptions),
    "push": Kind(("push",), PushOptions, _open_pushed, is_read=False),
}


def kind_of(uri: str) -> str:
    """Return the name of the kind of source that an address has.

    Raises:
        InvalidInput: the address is malformed, or no kind has its scheme.
    """
    address = Address.parse(uri)
    for name, kind in KINDS.items():
        if address.scheme in kind.schemes and kind.claims(address) and kind.is_usual(address):
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


def keeps_bytes(kind: str, options: Mapping[str, Any]) -> bool:
    """Return whether the bytes of the entries are copied. Rows and pages always are.

    Raises:
        InvalidInput: an option cannot be used.
    """
    if kind not in KINDS or not issubclass(KINDS[kind].options, FileOptions):
        return True
    copy_files: bool = read_options(KINDS[kind].options, options).copy_files
    return copy_files


def options_of(kind: str, options: Mapping[str, Any]) -> Options:
    """Return the options of a source.

    Raises:
        InvalidInput: an option cannot be used.
    """
    return read_options(KINDS[kind].options, options) if kind in KINDS else Options()


def open_source(
    kind: str,
    uri: str,
    options: Mapping[str, Any],
    *,
    roots: Roots,
    secret: Mapping[str, str] | None = None,
    web: Callable[[], Web] | None = None,
    reader: Reader | None = None,
    private: bool = False,
    temporary_bytes: int = TEMPORARY_BYTES,
    packs: Callable[[], Packs | None] = lambda: None,
) -> Source:
    """Open a source; nothing is read yet.

    Args:
        kind: its kind, a name in `KINDS`.
        uri: its address.
        options: its options.
        roots: allowed addresses of its tenant, which are checked again because the operator may have removed one.
        secret: fields of its secret; None if it has none.
        web: returns the dependencies of sources of pages; None if the process reads no pages.
        reader: reads its contents in a confined process.
        private: whether repositories and databases may have private addresses; `web` says it for pages.
        temporary_bytes: bytes that it may store in temporary files.
        packs: returns the packs of a repository that other processes read, too; None: only this source reads them.

    Raises:
        Misconfigured: `check` refuses it now, or the secret cannot be used.
    """
    try:
        address, read = _checked(kind, uri, options, roots)
        fields = _fields_of(secret, address)
        of_secret = roots if secret is None else Roots([secret[_URI]])
        hosts = Hosts(private, lambda uri: roots.permits(uri) and of_secret.permits(uri))
        source: Source = KINDS[kind].open(address, read, Access(fields, web, reader, hosts, temporary_bytes, packs))
    except InvalidInput as error:
        raise Misconfigured(error.message, component=COMPONENT) from error
    return source


def _checked(kind: str, uri: str, options: Mapping[str, Any], roots: Roots) -> tuple[Address, Options]:
    if kind not in KINDS:
        raise InvalidInput(f"There is no kind {kind}; the kinds are {', '.join(KINDS)}.", field="kind")
    address = Address.parse(uri)
    if address.scheme not in KINDS[kind].schemes or not KINDS[kind].claims(address):
        raise InvalidInput(f"A source of the kind {kind} cannot have this address.", field="uri")
    address = KINDS[kind].resolve(address)
    if KINDS[kind].is_read:
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
