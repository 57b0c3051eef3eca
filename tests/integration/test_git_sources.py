"""Git repositories as sources, over HTTP from git's own server, and in folders."""

import asyncio
import os
import random
import shutil
import socket
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from features.sources.git.options import GitOptions
from features.sources.git.packs import ENTRY_BYTES
from features.sources.git.repositories import GitSource
from features.sources.opening import kind_of, open_source
from features.sources.source import Entry
from shared.domain.errors import InvalidInput, Misconfigured, NotFound, Unavailable, Unreadable
from shared.settings.source_roots import Roots
from tests.support.corpora import PRIVATE, GitCorpus, listed
from tests.support.git_server import GitFolder, GitServer
from tests.support.names import resolving
from tests.support.planted import guards

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d7a2146" * 8 + b"\nsize 12345\n"
LARGE = b"The harbour opens at six. " * 100
LOGIN = ("someone", "the-secret-token")


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Return the folder of temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def folder(tmp_path, temporary):
    (tmp_path / "served").mkdir()
    return GitFolder(tmp_path / "served" / "corpus.git")


@pytest.fixture
def server(folder):
    with GitServer(folder.folder.parent).running() as server:
        yield server


@pytest.fixture
def protected(folder):
    with GitServer(folder.folder.parent, LOGIN).running() as server:
        yield server


# Refs are read before anything is cloned, and trees are the same in a folder and in a clone.
REFS = pytest.mark.parametrize("corpus", ["folder", "partial clone"], indirect=True)
TREES = pytest.mark.parametrize("corpus", ["folder"], indirect=True)


@pytest.fixture(params=["folder", "partial clone", "complete clone"])
def corpus(request, folder, readers):
    if request.param == "complete clone":
        folder._git("config", "uploadpack.allowFilter", "false")
    return GitCorpus(folder, None if request.param == "folder" else request.getfixturevalue("server"), readers)


@pytest.fixture
async def keys_of(corpus):
    async def keys(**options):
        source = corpus.source(**options)
        try:
            return [entry.key for entry in await listed(source)]
        finally:
            await source.aclose()

    return keys


async def test_ref_selects_branch_tag_or_commit(corpus, folder, keys_of):
    folder.write("one", LARGE)
    first = folder.commit()
    folder.tag("v1", first)
    folder.write("two", LARGE)
    folder.commit()
    folder.write("three", LARGE)
    folder.commit("drafts/next")

    assert await keys_of() == ["one", "two"]
    for ref in ("v1", "refs/tags/v1", first):
        assert await keys_of(ref=ref) == ["one"]
    for ref in ("drafts/next", "refs/heads/drafts/next"):
        assert await keys_of(ref=ref) == ["one", "three", "two"]


@guards(
    "features/sources/git/repository.py",
    '[b"refs/heads/" + wanted, b"refs/tags/" + wanted]',
    '[b"refs/tags/" + wanted, b"refs/heads/" + wanted]',
    means="a tag precedes the branch of the same name",
    case="partial clone",
)
@REFS
async def test_branch_precedes_tag_of_same_name(corpus, folder, keys_of):
    folder.write("tagged", LARGE)
    folder.tag("same", folder.commit())
    folder.write("branched", LARGE)
    folder.commit("same")

    assert await keys_of(ref="same") == ["branched", "tagged"]


@REFS
async def test_unknown_ref_names_existing_ones(corpus, folder, keys_of, subtests):
    folder.write("one", LARGE)
    commit = folder.commit()
    folder.tag("v1", commit)

    for ref in ("nowhere", "refs/heads/nowhere", "0" * 40, "1" * 40):
        sentence = r"no branch, tag or commit '.*It has the refs: main, v1\."
        with subtests.test(ref=ref), pytest.raises(Misconfigured, match=sentence):
            await keys_of(ref=ref)
    with pytest.raises(Misconfigured, match="The id of a commit must be complete"):
        await keys_of(ref=commit[:10])


@REFS
async def test_repository_without_commits_is_error(corpus, keys_of):
    with pytest.raises(Misconfigured, match="It has no commits"):
        await keys_of()


@TREES
async def test_path_and_patterns_select_files(corpus, folder, keys_of):
    for key in ("docs/a.md", "docs/b.txt", "docs/deep/c.md", "docs.md", "docs/.hidden/d.md", "other/e.md"):
        folder.write(key, LARGE)
    folder.commit()

    assert await keys_of(path="/docs/") == ["docs/a.md", "docs/b.txt", "docs/deep/c.md"]
    assert await keys_of(path="docs", include="*.md", exclude="deep/*") == ["docs/a.md"]
    assert await keys_of(path="docs/deep") == ["docs/deep/c.md"]
    assert await keys_of(path="docs/.hidden") == ["docs/.hidden/d.md"]
    assert await keys_of(include="*.md", hidden=True) == [
        *("docs.md", "docs/.hidden/d.md", "docs/a.md", "docs/deep/c.md", "other/e.md")
    ]
    for path in ("Docs", "docs.md", "docs/a.md"):
        with pytest.raises(Misconfigured, match=r"no folder '.*At the top it has: docs, other\."):
            await keys_of(path=path)


@guards(
    "features/sources/git/readers.py",
    "not node.is_folder and selects(node.key)",
    "not node.is_folder",
    means="a file that the options exclude is found",
    case="folder",
)
async def test_excluded_file_is_not_found(corpus, folder):
    folder.write("a.md", LARGE)
    folder.write("a.txt", LARGE)
    folder.commit()
    source = corpus.source(include="*.md")

    assert await source.find("a.txt") is None
    with pytest.raises(NotFound):
        await source.fetch(Entry("a.txt", "1"), max_bytes=10_000)
    await source.aclose()


@guards(
    "features/sources/git/tree.py",
    "if stat.S_ISREG(mode) or stat.S_ISDIR(mode):",
    "if True:",
    means="a symbolic link becomes a document",
    case="folder",
)
@TREES
async def test_links_and_submodules_are_left_out(corpus, folder, keys_of):
    folder.write("a.md", LARGE)
    folder.write("script", LARGE, "100755")
    folder.write("link", b"a.md", "120000")
    folder.write("module", b"1" * 40, "160000")
    folder.commit()

    assert await keys_of() == ["a.md", "script"]


@guards(
    "features/sources/git/readers.py",
    "return LFSPointer.from_bytes(content) is not None",
    "return False",
    means="a pointer of Git LFS becomes a document",
    case="partial clone",
)
async def test_pointer_of_lfs_is_refused(corpus, folder):
    folder.write("film.mp4", POINTER)
    folder.write("text.md", LARGE)
    folder.commit()
    source = corpus.source()

    film, text = await listed(source)
    assert "Git LFS" in film.refused
    assert text.refused is None
    assert (await source.find("film.mp4")) == film
    with pytest.raises(Unreadable, match="Git LFS"):
        await source.fetch(film, max_bytes=10_000)
    await source.aclose()


@guards(
    "features/sources/git/tree.py",
    "return dict(sorted(nodes.items()))",
    "return nodes",
    means="replaced names of a tree break the order of its keys",
    case="folder",
)
@TREES
async def test_unusable_names_are_refused_in_order(corpus, folder):
    smile = "\U0001f600"
    for name in (b"a", b"caf\xe9.md", b"caf\xe8.md", b"caf\xc3\xa9.md", b"d\xff/x", b"d\xff/y", b"z"):
        folder.write(name, LARGE)
    for name in (smile.encode(), b"\xff"):  # the key of the second one precedes the first one
        folder.write(name, LARGE)
    folder.write(b"/".join([b"n" * 200] * 6), LARGE)
    folder.commit()
    source = corpus.source()

    entries = await listed(source)
    keys = [entry.key.encode() for entry in entries]
    assert keys == sorted(set(keys))
    assert all(len(key) <= 1_024 for key in keys)
    assert [entry.key for entry in entries if entry.refused is None] == ["a", "café.md", "z", smile]
    reasons = sorted(entry.refused[:25] for entry in entries if entry.refused)
    assert reasons == ["Its name has 1,205 bytes,", *["Its name is not UTF-8: re"] * 4]
    for entry in entries:
        assert [e.key for e in await listed(source, entry.key)] == [
            key.decode() for key in keys if key > entry.key.encode()
        ]
    await source.aclose()


async def test_item_has_commit_path_and_link(folder, server, readers):
    folder.write("docs/a b.md", LARGE)
    commit = folder.commit()
    source = GitCorpus(folder, server, readers).source(link="https://example.org/{commit}/{path}")

    (entry,) = await listed(source)
    item = await source.fetch(entry, max_bytes=10_000)

    assert (item.filename, item.title, item.media_type) == ("a b.md", None, None)
    assert item.metadata == {
        "commit": commit,
        "path": "docs/a b.md",
        "url": f"https://example.org/{commit}/docs/a%20b.md",
    }
    await source.aclose()


@guards(
    "features/sources/git/repositories.py",
    "if self._opening is None or _has_failed(self._opening):",
    "if True:",
    means="a source moves to a newer commit while it is listed",
    case="folder",
)
async def test_source_stays_at_its_first_commit(corpus, folder):
    folder.write("a", LARGE)
    folder.commit()
    source = corpus.source()
    assert await source.find("b") is None

    folder.write("b", LARGE)
    folder.commit()

    assert [entry.key for entry in await listed(source)] == ["a"]
    await source.aclose()


@pytest.mark.parametrize(
    "secret", [{"token": LOGIN[1], "username": LOGIN[0]}, {"username": LOGIN[0], "password": LOGIN[1]}]
)
async def test_protected_repository_is_read_with_secret(folder, protected, secret, readers):
    folder.write("a", LARGE)
    folder.commit()
    source = GitCorpus(folder, protected, readers).source(secret)

    (entry,) = await listed(source)
    assert (await source.fetch(entry, max_bytes=10_000)).content == LARGE
    await source.aclose()


@guards(
    "features/sources/git/server.py",
    "if reply.status in _NO_ACCESS:",
    "if False:",
    means="a server that refuses the secret is treated as unavailable",
    case="secret1",
)
@pytest.mark.parametrize("secret", [{}, {"token": "another-secret"}])
async def test_refused_secret_is_reported_not_shown(folder, protected, secret, caplog, readers):
    caplog.set_level(0)
    folder.write("a", LARGE)
    folder.commit()
    source = GitCorpus(folder, protected, readers).source(secret)

    with pytest.raises(
        Misconfigured, match=r"gives no access to the repository \(status 401\): check the secret"
    ) as caught:
        await listed(source)

    assert "another-secret" not in f"{caught.value!r} {caplog.text} {vars(source)}"
    await source.aclose()


@guards(
    "features/sources/git/server.py",
    "if _server(url) != self._server:",
    "if False:",
    means="a redirect carries the login to another server",
)
async def test_redirect_to_other_server_carries_no_credentials(folder, server, protected, readers):
    folder.write("a", LARGE)
    folder.commit()
    protected.answers["/corpus.git/info/refs"] = (302, {"Location": f"{server.url}/corpus.git/info/refs"})
    source = GitCorpus(folder, protected, readers).source({"token": LOGIN[1]})

    with pytest.raises(Misconfigured, match=r"redirects to http://127\.0\.0\.1"):
        await listed(source)

    assert protected.requests
    assert server.requests == []
    await source.aclose()


async def test_redirect_within_server_is_followed(folder, server, readers):
    folder.write("a", LARGE)
    folder.commit()
    tail = "info/refs?service=git-upload-pack"
    server.answers["/renamed.git/info/refs"] = (301, {"Location": f"{server.url}/corpus.git/{tail}"})
    source = GitSource(f"git+{server.url}/renamed.git", GitOptions(), {}, PRIVATE, readers.for_tenant("alice"))

    (entry,) = await listed(source)
    assert (await source.fetch(entry, max_bytes=10_000)).content == LARGE
    await source.aclose()


@pytest.fixture
def limited(folder, protected, readers):
    """Return a function that opens the repository with a secret, as a source of a tenant with these roots."""

    def open_limited(*roots, uri=None, allowed="", private=True):
        secret = {"uri": f"git+{protected.url}/{allowed}", "username": LOGIN[0], "password": LOGIN[1]}
        address = uri or f"git+{protected.url}/corpus.git"
        addresses = Roots([f"git+{protected.url}/{root}" for root in roots])
        return open_source(
            "git", address, {}, roots=addresses, secret=secret, private=private, reader=readers.for_tenant("alice")
        )

    return open_limited


@guards(
    "features/sources/git/server.py",
    "if not self._permits(url):",
    "if False:",
    means="a server's redirect leads to a repository of another tenant, with the token",
)
@pytest.mark.parametrize(
    "target", ["/beta/other.git", "/corpus.git/../beta/other.git", "/corpus.git/%2e%2e/beta/other.git"]
)
@pytest.mark.parametrize(("root", "allowed"), [("corpus.git", ""), ("", "corpus.git")])
async def test_redirect_outside_roots_receives_no_token(protected, limited, target, root, allowed):
    protected.answers["/corpus.git/info/refs"] = (302, {"Location": f"{protected.url}{target}/info/refs"})
    source = limited(root, allowed=allowed)

    with pytest.raises(Misconfigured, match="not below a root of this tenant"):
        await listed(source)

    assert {path.partition("?")[0] for path, _ in protected.requests} == {"/corpus.git/info/refs"}
    await source.aclose()


async def test_server_may_add_ending_of_repository(folder, protected, limited):
    folder.write("a", LARGE)
    folder.commit()
    tail = "info/refs?service=git-upload-pack"
    protected.answers["/corpus/info/refs"] = (301, {"Location": f"{protected.url}/corpus.git/{tail}"})
    source = limited("corpus", allowed="corpus", uri=f"git+{protected.url}/corpus")

    assert [entry.key for entry in await listed(source)] == ["a"]
    await source.aclose()


@guards(
    "features/sources/git/server.py",
    "self.hosts.addresses_in_thread(self.host, self.port)",
    "[self.host]",
    means="the name of an allowed server leads to a private address",
)
async def test_repository_at_private_address_needs_setting(protected, limited):
    source = limited("", private=False)

    with pytest.raises(Misconfigured, match="private address, which FOREASK_SOURCES_PRIVATE_NETWORKS does not allow"):
        await listed(source)

    await source.aclose()
    assert protected.requests == []


async def test_repository_is_reached_at_checked_address(folder, server, monkeypatch, readers):
    folder.write("a", LARGE)
    folder.commit()
    port = urlsplit(server.url).port
    looked_up = resolving(monkeypatch, {"git.test": ["127.0.0.1"], "metadata.test": ["169.254.169.254"]})
    source = GitSource(f"git+http://git.test:{port}/corpus.git", GitOptions(), {}, PRIVATE, readers.for_tenant("alice"))
    elsewhere = GitSource(
        f"git+http://metadata.test:{port}/corpus.git", GitOptions(), {}, PRIVATE, readers.for_tenant("alice")
    )

    assert [entry.key for entry in await listed(source)] == ["a"]
    assert set(looked_up) == {"git.test"}
    with pytest.raises(Misconfigured, match="which is never visited"):
        await listed(elsewhere)
    for each in (source, elsewhere):
        await each.aclose()


async def test_endless_redirects_are_an_error(folder, server, readers):
    server.answers["/corpus.git/info/refs"] = (302, {"Location": f"{server.url}/corpus.git/info/refs"})
    source = GitCorpus(folder, server, readers).source()

    with pytest.raises(Unavailable, match=r"cannot be read: its redirects do not end\."):
        await listed(source)
    await source.aclose()


@guards(
    "features/sources/git/server.py",
    "if reply.status in _MISSING:",
    "if False:",
    means="a repository that a server does not have is treated as unavailable",
)
async def test_status_of_server_decides_error(folder, server, subtests, readers):
    for status, kind in ((403, Misconfigured), (404, Misconfigured), (429, Unavailable), (503, Unavailable)):
        with subtests.test(status=status):
            server.answers["/corpus.git/info/refs"] = (status, {"Retry-After": "7"})
            source = GitCorpus(folder, server, readers).source()

            with pytest.raises(Unavailable) as caught:
                await listed(source)

            assert type(caught.value) is kind
            assert kind is Misconfigured or caught.value.retry_after.total_seconds() == 7
            await source.aclose()


@guards(
    "shared/process/temporary_folders.py",
    "shutil.rmtree(self.path, ignore_errors=True)",
    "pass",
    means="the files of a failed download remain",
)
async def test_cut_connection_is_error_without_leftovers(folder, server, temporary, subtests, readers):
    for number in range(300):
        folder.write(f"{number}", b"%d" % number)
    folder.commit()
    for size in (0, 10, 100, 1_000, 3_000):
        with subtests.test(size=size):
            server.cut_after = size
            source = GitCorpus(folder, server, readers).source()

            with pytest.raises(Unavailable) as error:
                await listed(source)

            assert not isinstance(error.value, Misconfigured)  # another attempt may succeed
            assert list(temporary.iterdir()) == []
            await source.aclose()


@guards(
    "features/sources/git/objects.py",
    "return Misconfigured(f",
    "return Unavailable(f",
    means="a pack that is damaged is fetched for two minutes again and again",
)
@pytest.mark.parametrize(
    "objects", [b"\xff" * 1_000, b"", b"\x93x\x9c", bytes(100)], ids=["length", "end", "half", "kind"]
)
async def test_damaged_pack_fails_without_other_attempts(folder, server, readers, objects):
    folder.write("a", LARGE)
    folder.commit()
    server.pack = b"PACK" + (2).to_bytes(4, "big") + (1).to_bytes(4, "big") + objects
    source = GitCorpus(folder, server, readers).source()

    with pytest.raises(Misconfigured, match="its objects are damaged"):
        await listed(source)
    await source.aclose()


async def test_other_content_than_git_is_error(folder, server, readers):
    server.answers["/corpus.git/info/refs"] = (200, {"Content-Type": "text/html"})
    source = GitCorpus(folder, server, readers).source()

    with pytest.raises(Misconfigured, match="does not answer as a Git server: check the address"):
        await listed(source)
    await source.aclose()


ADVERTISED = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-git-upload-pack-advertisement\r\n"


@pytest.fixture
def raw_server():
    """Return a function that serves the same bytes to each connection, and returns its address."""
    servers = []

    def serve(content):
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)

        def answer():
            with suppress(OSError):  # closed
                while True:
                    connection, _ = server.accept()
                    with connection:
                        connection.recv(10_000)
                        connection.sendall(content)

        threading.Thread(target=answer, daemon=True).start()
        return f"http://127.0.0.1:{server.getsockname()[1]}"

    yield serve
    for server in servers:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


@guards(
    "features/sources/git/repository.py",
    "yield from (each for each in cause.args if isinstance(each, Exception))",
    "",
    means="of a connection that the server closed, only the name of a class is reported",
    case="closed",
)
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "the connection is refused: check that it runs, and its port"),
        (b"", "it closed the connection before the end of its reply"),
        (ADVERTISED + b"content-length: 99\r\n\r\n001e", "it closed the connection before the end of its reply"),
        (b"no HTTP\r\n\r\n", "its replies are not valid HTTP: check the scheme and the port of its address"),
        (ADVERTISED + b"\r\nzzzz", "its replies do not follow Git's protocol: check its address"),
    ],
    ids=["refused", "closed", "cut", "no HTTP", "no Git"],
)
async def test_lost_server_is_named_with_reason(raw_server, readers, content, reason):
    url = "http://127.0.0.1:9" if content is None else raw_server(content)
    secret = {"token": "another-secret"}
    source = GitSource(f"git+{url}/a.git", GitOptions(), secret, PRIVATE, readers.for_tenant("alice"))

    with pytest.raises(Unavailable) as caught:
        await listed(source)

    assert caught.value.message == f"The repository at {url}/a.git cannot be read: {reason}."
    await source.aclose()


async def test_lost_repository_is_not_a_missing_file(folder, server, readers):
    folder.write("a", LARGE)
    folder.commit()
    corpus = GitCorpus(folder, server, readers)
    source = corpus.source()
    (entry,) = await listed(source)

    await corpus.disappear()

    with pytest.raises(Unavailable):
        await source.fetch(entry, max_bytes=10_000)
    await source.aclose()


async def shuffled(source, entries):
    """Read all entries in random order, eight at a time; return their contents by key."""
    room, order = asyncio.Semaphore(8), random.Random(7).sample(entries, len(entries))

    async def read(entry):
        async with room:
            return entry.key, (await source.fetch(entry, max_bytes=10_000)).content

    return dict(await asyncio.gather(*map(read, order)))


@pytest.fixture
def texts(folder):
    """Write a number of files that a partial clone leaves out."""

    def write(number):
        texts = {f"{each:04}": LARGE + b"%d" % each for each in range(number)}
        for key, text in texts.items():
            folder.write(key, text)
        folder.commit()
        return texts

    return write


@guards(
    "features/sources/git/remote.py",
    "list(dict.fromkeys([object_id, *others]))",
    "[object_id]",
    means="each file of a first sync is requested alone",
    case="True",
)
@pytest.mark.parametrize("is_told", [True, False])
async def test_files_take_one_fetch_in_any_order(folder, server, readers, texts, is_told):
    written = texts(256)
    source = GitCorpus(folder, server, readers).source()
    entries = await listed(source)
    if is_told:
        source.expect(entries)

    assert await shuffled(source, entries) == written

    assert server.sessions() == 2  # of the trees, and of all contents
    await source.aclose()


@guards(
    "features/sources/git/blobs.py",
    "self._ready |= found.by_id",
    "pass",
    means="each content is unpacked by a request of its own",
)
async def test_expected_files_are_unpacked_together(folder, server, readers, texts, monkeypatch):
    texts(40)
    source = GitCorpus(folder, server, readers).source()
    entries = await listed(source)
    source.expect(entries)
    sizes, contents = [], source._git.contents

    async def counted(stores, ids, *, max_bytes):
        sizes.append(len(ids))
        return await contents(stores, ids, max_bytes=max_bytes)

    monkeypatch.setattr(source._git, "contents", counted)

    await shuffled(source, entries)

    assert sizes == [40]
    await source.aclose()


@guards(
    "features/sources/git/repositories.py",
    "if not self._is_told:",
    "if True:",
    means="a changed file is fetched together with unchanged ones",
)
async def test_single_changes_are_fetched_alone(folder, server, readers, texts, temporary):
    texts(60)
    source = GitCorpus(folder, server, readers).source()
    source.expect([])
    entries = await listed(source)

    for entry in entries[10:30:10]:
        await source.fetch(entry, max_bytes=10_000)

    assert sorted(path.stat().st_size for path in temporary.glob("*/own-*.index"))[:2] == [ENTRY_BYTES] * 2
    await source.aclose()


@guards(
    "features/sources/git/remote.py",
    "self._most_files = max(1, len(wanted) // _DIVISOR)",
    "self._most_files = 1",
    means="after a large reply each file is requested alone",
)
async def test_too_large_batch_is_divided(folder, server, readers, monkeypatch):
    monkeypatch.setattr("features.sources.git.remote._MAX_BATCH_BYTES", 100_000)
    texts = {f"{number:04}": os.urandom(5_000) for number in range(64)}
    for key, text in texts.items():
        folder.write(key, text)
    folder.commit()
    source = GitCorpus(folder, server, readers).source()
    entries = await listed(source)

    assert await shuffled(source, entries) == texts

    assert server.sessions() <= 2 + 64 // 16
    await source.aclose()


@guards(
    "features/sources/git/remote.py",
    "known = error.named & set(others)",
    "known = set()",
    means="one lost file of many has all others fetched alone",
)
async def test_lost_object_is_left_out_of_batch(folder, server, readers, texts):
    written = texts(20)
    source = GitCorpus(folder, server, readers).source()
    entries = await listed(source)
    source.expect([*entries, Entry("lost", "1" * 40)])

    assert await shuffled(source, entries) == written

    assert server.sessions() == 3  # the second one was refused because of the lost object
    await source.aclose()


@guards(
    "features/sources/git/remote.py",
    "elif is_current and self.commit and not self._is_complete:",
    "elif False:",
    means="of a server that sends only commits, no content is read",
)
async def test_server_that_refuses_objects_sends_all_files(folder, server, readers, texts):
    written = texts(20)
    server.only_wants = (folder.folder / "refs" / "heads" / "main").read_text().strip()
    source = GitCorpus(folder, server, readers).source()
    entries = await listed(source)

    assert await shuffled(source, entries) == written

    assert server.sessions() <= 5
    await source.aclose()


async def test_lost_version_becomes_current_content(folder, server, readers, texts):
    written = texts(2)
    source = GitCorpus(folder, server, readers).source()

    assert await source.content(Entry("0001", "1" * 40), max_bytes=10_000) == written["0001"]
    await source.aclose()


@guards(
    "features/sources/git/remote.py",
    "    reads_by_id = True",
    "    reads_by_id = False",
    means="each parse worker fetches the names of all files",
)
async def test_content_of_version_needs_no_commit(folder, server, readers, texts):
    written = texts(2)
    corpus = GitCorpus(folder, server, readers)
    source = corpus.source()
    entries = await listed(source)
    await source.aclose()
    folder.write("0001", b"changed")
    folder.commit()
    server.requests.clear()
    later = corpus.source()
    later.expect(entries)

    assert [await later.content(entry, max_bytes=10_000) for entry in entries] == list(written.values())
    assert server.sessions() == 1
    await later.aclose()


@guards(
    "features/sources/git/remote.py",
    "                depth=1,\n",
    "",
    means="the whole history of a repository is fetched",
)
async def test_history_is_not_fetched(folder, server, readers):
    folder.write("a", b"old")
    first = folder.commit()
    folder.write("a", b"new")
    folder.commit()
    source = GitCorpus(folder, server, readers).source()

    await listed(source)

    (stored,) = source._repository.stores
    assert await source._git.commit([stored], first) == "missing"
    assert os.fstat(stored.index.fileno()).st_size == 3 * ENTRY_BYTES
    await source.aclose()


async def test_temporary_files_are_deleted_when_closed(folder, server, temporary, readers):
    for number in range(20):
        folder.write(f"{number:04}", LARGE + b"%d" % number)
    folder.commit()
    source = GitCorpus(folder, server, readers).source()
    for entry in await listed(source):
        await source.fetch(entry, max_bytes=10_000)
    assert list(temporary.glob("*/own-*.pack"))

    await source.aclose()

    assert list(temporary.iterdir()) == []


@guards(
    "features/sources/git/remote.py",
    "if self._written > self._most_bytes:",
    "if False:",
    means="a reply of any size is stored",
)
async def test_large_reply_is_an_error(folder, server, monkeypatch, readers):
    monkeypatch.setattr("features.sources.git.remote._MAX_PACK_BYTES", 100)
    folder.write("a", LARGE)
    folder.commit()
    source = GitCorpus(folder, server, readers).source()

    with pytest.raises(Misconfigured, match="does not support partial clones"):
        await listed(source)
    await source.aclose()


@guards(
    "features/sources/git/remote.py",
    "if not has_room(path.parent, len(data)):",
    "if False:",
    means="the repository of one tenant takes all temporary room of the worker",
)
async def test_repository_without_room_names_remedy(folder, server, readers, temporary, monkeypatch):
    folder.write("a", LARGE)
    folder.commit()
    usage = shutil.disk_usage("/")._replace(total=1 << 30, free=64 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    source = GitCorpus(folder, server, readers).source()

    with pytest.raises(Unavailable, match="temporary files is full: make /tmp"):
        await listed(source)

    assert list(temporary.iterdir()) == []
    await source.aclose()


@guards(
    "features/sources/git/objects.py",
    '"max_bytes": MOST_OBJECT_BYTES',
    '"max_bytes": 1 << 60',
    means="a file of any size is unpacked in memory",
)
async def test_file_beyond_memory_is_too_large_alone(folder, server, monkeypatch, readers):
    for name, size in (("a", 2_000), ("b", 2_000), ("c", 200_000), ("d", 2_000)):
        folder.write(name, name.encode() * size)
    folder.commit()
    monkeypatch.setattr("features.sources.git.objects.MOST_OBJECT_BYTES", 100_000)
    source = GitCorpus(folder, server, readers).source()

    outcomes = []
    for entry in await listed(source):
        try:
            outcomes.append(len((await source.fetch(entry, max_bytes=10_000_000)).content))
        except Exception as error:  # noqa: BLE001 - compared below
            outcomes.append(type(error).__name__)

    assert outcomes == [2_000, 2_000, "TooLarge", 2_000]
    await source.aclose()


@guards(
    "features/sources/git/remote.py", "self.stopped.is_set() or ", "", means="a closed source continues its download"
)
async def test_closed_source_stops_its_download(folder, server, readers):
    folder.write("a", LARGE)
    folder.commit()
    source = GitCorpus(folder, server, readers).source()
    source._repository.stop()

    with pytest.raises(Unavailable):
        await listed(source)
    await source.aclose()


@guards(
    "features/sources/git/local.py",
    "any((git / name).exists() for name in _LEADS_ELSEWHERE)",
    "False",
    means="a folder of the roots leads to objects outside of them",
)
async def test_folder_that_reads_another_repository_is_refused(folder, tmp_path, readers):
    folder.write("a", LARGE)
    folder.commit()
    shared = tmp_path / "shared"
    folder._git("clone", "--quiet", "--shared", str(folder.folder), str(shared))
    worktree = tmp_path / "worktree"
    folder._git("worktree", "add", "--quiet", str(worktree), "main")

    for each in (shared, worktree):
        source = GitSource(f"git+file://{each}", GitOptions(), {}, PRIVATE, readers.for_tenant("alice"))
        with pytest.raises(Misconfigured, match="reads objects of another folder"):
            await listed(source)
        await source.aclose()


async def test_folder_with_checkout_is_read(folder, tmp_path, readers):
    folder.write("a", LARGE)
    folder.commit()
    clone = tmp_path / "a clone"
    folder._git("clone", "--quiet", "--no-local", str(folder.folder), str(clone))
    (tmp_path / "link").symlink_to(clone)
    uri = f"git+file://{tmp_path}/link"
    source = open_source(
        kind_of(uri), uri, {}, roots=Roots([f"git+file://{tmp_path}"]), reader=readers.for_tenant("alice")
    )

    assert [entry.key for entry in await listed(source)] == ["a"]
    await source.aclose()


async def test_damaged_repository_is_an_error(folder, readers):
    folder.write("a", LARGE)
    folder.commit()
    for path in Path(folder.folder).glob("objects/**/*"):
        if path.is_file():
            path.chmod(0o600)
            path.write_bytes(path.read_bytes()[:-30])
    source = GitCorpus(folder, None, readers).source()

    with pytest.raises(Unavailable):
        await listed(source)
    await source.aclose()


async def test_listing_and_closing_can_overlap(folder, server, temporary, readers):
    folder.write("a", LARGE)
    folder.commit()
    source = GitCorpus(folder, server, readers).source()
    listing = asyncio.create_task(listed(source))
    await asyncio.sleep(0)

    await source.aclose()
    listing.cancel()
    await asyncio.gather(listing, return_exceptions=True)

    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("secret", [{"password": "x"}, {"username": "x"}, {"tokn": "x"}, {"token": "x", "other": "y"}])
def test_unusable_secret_is_rejected(secret, readers):
    with pytest.raises(InvalidInput, match="the field token, or the fields username and password"):
        GitSource("git+https://example.org/a.git", GitOptions(), secret, PRIVATE, readers.for_tenant("alice"))


async def test_folder_with_many_packs_is_read(folder, readers):
    for number in range(6):
        folder.write(f"{number}", LARGE + b"%d" % number)
        folder.commit()
        folder._git("repack", "-d", "-q")
    folder.write("loose", LARGE)
    folder.commit()
    source = GitCorpus(folder, None, readers).source()

    contents = [(await source.fetch(entry, max_bytes=10_000)).content for entry in await listed(source)]

    assert contents == [*(LARGE + b"%d" % number for number in range(6)), LARGE]
    assert len(source._repository.stores) == 7
    await source.aclose()
