"""Scans: pages without a text layer, and pictures. `available` says whether they can be read on this machine."""

from shared.ingest.parse.scans.language_data import available, installed, lacking

__all__ = ["available", "installed", "lacking"]
