"""The address of a repository, and the login at its server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import quote, unquote, urlsplit

from shared.domain.errors import InvalidInput

# Addresses of files for people. Other hosts need the option `link`.
_LINKS = {
    "github.com": "{repository}/blob/{commit}/{path}",
    "gitlab.com": "{repository}/-/blob/{commit}/{path}",
    "bitbucket.org": "{repository}/src/{commit}/{path}",
    "codeberg.org": "{repository}/src/commit/{commit}/{path}",
}
_FORM = "The address of a repository must have the form git+https://host/path.git or git+file:///folder."
# GitHub, GitLab and Forgejo accept a token with any user name.
_USER_OF_TOKEN = "x-access-token"  # noqa: S105 - a user name


@dataclass(frozen=True, slots=True)
class GitAddress:
    """Where a repository is.

    Args:
        url: its address without `git+`.
        folder: its folder, if it is on this machine.
        link: template of the addresses of its files, with `{commit}` and `{path}`; None if unknown.
    """

    url: str
    folder: Path | None
    link: str | None

    @classmethod
    def parse(cls, uri: str) -> Self:
        """Return the address that a URI names.

        Raises:
            InvalidInput: it is not the address of a repository, or it contains a user name, a password or parameters.
        """
        try:
            parts = urlsplit(uri)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise InvalidInput(_FORM, field="uri") from None
        if "@" in parts.netloc:
            raise InvalidInput(
                "The address contains a user name or password: store them as the secret of the source.", field="uri"
            )
        if parts.query or parts.fragment or not parts.path.strip("/"):
            raise InvalidInput(_FORM, field="uri")
        url = uri.removeprefix("git+")
        if parts.scheme == "git+file" and not parts.netloc:
            return cls(url, Path(unquote(parts.path)), None)
        if parts.scheme not in {"git+https", "git+http"} or not host:
            raise InvalidInput(_FORM, field="uri")
        link = _LINKS.get(host) if port is None else None
        return cls(url, None, link and link.replace("{repository}", url.rstrip("/").removesuffix(".git")))

    @staticmethod
    def link_of(template: str, commit: str, path: str) -> str:
        """Return the address of a file for people."""
        return template.replace("{commit}", commit).replace("{path}", quote(path))


@dataclass(frozen=True, slots=True)
class Login:
    """A user name and a password or token; neither is part of any text of this object."""

    username: str
    password: str

    def __repr__(self) -> str:
        return "Login(…)"

    @classmethod
    def of(cls, secret: Mapping[str, str]) -> Login | None:
        """Return the login that a secret contains; None if the secret is empty.

        Raises:
            InvalidInput: it has neither `token` nor `username` and `password`.
        """
        if not secret:
            return None
        username, password = secret.get("username", _USER_OF_TOKEN), secret.get("token", secret.get("password"))
        unknown = secret.keys() - {"token", "username", "password"}
        if password is None or unknown or ("token" not in secret and "username" not in secret):
            raise InvalidInput(
                "The secret of a repository has the field token, or the fields username and password.", field="secret"
            )
        return cls(username, password)
