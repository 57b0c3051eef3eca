"""Git repositories, and a server of them on loopback: git's own `http-backend`."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

_ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.org",
}  # fmt: skip
_WANT = re.compile(rb"want ([0-9a-f]{40})")
_SUBMODULE = "160000"  # mode of a commit of another repository


class GitFolder:
    """A bare repository in a folder, whose commits are made without a checkout.

    Args:
        folder: the folder, which must not exist.
        partial: whether its server allows partial clones.
    """

    def __init__(self, folder: Path, *, partial: bool = True) -> None:
        self.folder = folder
        self.files = dict[bytes, tuple[str, bytes]]()  # mode and content by path
        self._branches = set[str]()
        # Everything that `git init` and `git config` would write and git reads, without their processes.
        for name in ("objects", "refs"):
            (folder / name).mkdir(parents=True)
        (folder / "HEAD").write_text("ref: refs/heads/main\n")
        (folder / "config").write_text(
            "[core]\n\tbare = true\n\trepositoryformatversion = 0\n[http]\n\treceivepack = false\n"
            f"[uploadpack]\n\tallowFilter = {str(partial).lower()}\n"
        )

    def write(self, path: str | bytes, content: bytes, mode: str = "100644") -> None:
        """Change a file in the next commit."""
        self.files[path.encode() if isinstance(path, str) else path] = mode, content

    def remove(self, path: str) -> None:
        del self.files[path.encode()]

    def commit(self, branch: str = "main") -> str:
        """Commit all files to a branch, and return the id of the commit."""
        stream = [f"commit refs/heads/{branch}\ncommitter A <a@example.org> 0 +0000\ndata 0\n".encode()]
        stream += [f"from refs/heads/{branch}^0\n".encode()] if branch in self._branches else []
        stream += [b"deleteall\n"]
        for path, (mode, content) in self.files.items():
            if mode == _SUBMODULE:
                stream += [b"M 160000 " + content + b" " + path + b"\n"]
            else:
                stream += [f"M {mode} inline ".encode() + path + f"\ndata {len(content)}\n".encode(), content, b"\n"]
        self._git("fast-import", "--quiet", data=b"".join(stream))
        self._branches.add(branch)
        return (self.folder / "refs" / "heads" / branch).read_text().strip()

    def tag(self, name: str, commit: str) -> None:
        self._git("tag", "-a", "-m", "tagged", name, commit)

    def delete_branch(self, name: str) -> None:
        self._git("update-ref", "-d", f"refs/heads/{name}")

    def _git(self, *arguments: str, data: bytes = b"") -> str:
        run = subprocess.run(
            ["git", *arguments], cwd=self.folder, input=data, capture_output=True, check=True, env=_ENVIRONMENT
        )
        return run.stdout.decode().strip()


class GitServer:
    """Serves the repositories of a folder.

    Args:
        folder: the folder.
        login: user name and password that each request must have; None for public repositories.
    """

    def __init__(self, folder: Path, login: tuple[str, str] | None = None) -> None:
        self.requests = list[tuple[str, str | None]]()  # path and authorization of each
        self.answers = dict[str, tuple[int, Mapping[str, str]]]()  # status and headers instead of git's, by path
        self.cut_after: int | None = None  # bytes of a body after which the connection is closed
        self.pack: bytes | None = None  # sent instead of the objects
        self.only_wants: str | None = None  # the id of the only object that may be requested
        self._folder = folder
        self._authorization = login and f"Basic {base64.b64encode(':'.join(login).encode()).decode()}"
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # a body would wait 40 ms for the acknowledgement of its headers

            def do_GET(self) -> None:
                owner._answer(self)

            do_POST = do_GET  # noqa: N815 - the name that the server calls

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def running(self) -> Iterator[GitServer]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def sessions(self) -> int:
        """Return the number of sessions of Git's protocol: each asks for the server's abilities first."""
        return sum("/info/refs?" in path for path, _ in self.requests)

    def fetches(self) -> int:
        """Return the number of requests for objects."""
        return sum(path.endswith("git-upload-pack") and "?" not in path for path, _ in self.requests)

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        authorization = request.headers.get("Authorization")
        self.requests.append((request.path, authorization))
        status, headers, content = 401, {"WWW-Authenticate": "Basic"}, b""
        if answer := self.answers.get(urlsplit(request.path).path):
            status, headers = answer
        elif authorization == self._authorization:
            status, headers, content = self._run_git(request, body)
            refused = [each for each in _WANT.findall(body) if each.decode() != self.only_wants]
            if self.only_wants and refused:
                content = _line(b"ERR want " + refused[0] + b" not valid")  # as JGit answers
                headers["Content-Length"] = str(len(content))
            if self.pack is not None and b"command=fetch" in body:
                content = b"".join(map(_line, (b"packfile\n", b"\x01" + self.pack))) + b"0000"
                headers["Content-Length"] = str(len(content))
        request.send_response(status)
        for name, value in ({"Content-Length": str(len(content))} | dict(headers)).items():
            request.send_header(name, value)
        request.end_headers()
        if self.cut_after is not None and len(content) > self.cut_after:
            content, request.close_connection = content[: self.cut_after], True
        request.wfile.write(content)

    def _run_git(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, dict[str, str], bytes]:
        parts = urlsplit(request.path)
        variables = _ENVIRONMENT | {
            "GIT_PROJECT_ROOT": str(self._folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
            "REQUEST_METHOD": request.command,
            "PATH_INFO": parts.path,
            "QUERY_STRING": parts.query,
            "CONTENT_TYPE": request.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "REMOTE_USER": "",
        }
        reply = subprocess.run(["git", "http-backend"], input=body, env=variables, capture_output=True, check=False)
        head, _, content = reply.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        return int(headers.pop("Status", "200").split()[0]), headers, content


def _line(content: bytes) -> bytes:
    """Return a line of Git's protocol."""
    return b"%04x" % (len(content) + 4) + content
