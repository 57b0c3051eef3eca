"""The sources that the operator allows: they are checked by the API, and opened by parse workers with their secrets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from features.sources.domain import SourceDefinition
from features.sources.opening import check, open_source
from features.sources.source import Source
from shared.confined.reading import Readers
from shared.settings import Settings
from shared.settings.source_roots import Roots

if TYPE_CHECKING:
    from features.sources.git.stored_packs import Packs
    from features.sources.web.source import Web


def _unshared(_: UUID) -> None:
    """Return no packs: a process without a folder for them fetches its own."""


@dataclass(frozen=True, slots=True)
class SourceAccess:
    """The allowed addresses and the secrets of sources in the settings of a process.

    Args:
        settings: settings of the process.
        readers: read contents in confined processes; only workers open sources.
        web: returns the dependencies of a source of pages; only parse workers read pages.
        packs: returns the packs of a source that the processes of this machine share.
    """

    settings: Settings
    readers: Readers | None = None
    web: Callable[[SourceDefinition], Web] | None = None
    packs: Callable[[UUID], Packs | None] = _unshared

    def require(
        self, tenant: str, kind: str, uri: str, options: Mapping[str, Any], *, secret_name: str | None = None
    ) -> None:
        """Check the definition of a source, without reading it.

        The API needs no secrets. If it has some, a name is checked, too.

        Raises:
            InvalidInput: the address is not allowed, an option cannot be used, or no secret has this name.
        """
        check(kind, uri, options, self._roots_of(tenant))
        if secret_name and self.settings.source_secrets:
            self.settings.source_secret(secret_name)

    def open(self, definition: SourceDefinition) -> Source:
        """Open a source; nothing is read yet.

        Raises:
            InvalidInput: the secret does not exist.
            Misconfigured: the address is not allowed any more, or the secret cannot be used.
        """
        name = definition.secret_name
        return open_source(
            definition.kind,
            definition.uri,
            definition.options,
            roots=self._roots_of(definition.tenant),
            secret=None if name is None else self.settings.source_secret(name),
            web=None if self.web is None else partial(self.web, definition),
            reader=None if self.readers is None else self.readers.for_tenant(definition.tenant),
            private=self.settings.sources_private_networks,
            temporary_bytes=self.settings.source_temporary_bytes,
            packs=partial(self.packs, definition.id),
        )

    def _roots_of(self, tenant: str) -> Roots:
        return Roots(self.settings.roots_of(tenant))
