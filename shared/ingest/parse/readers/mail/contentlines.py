"""Calendar entries (RFC 5545) as text."""

from __future__ import annotations

import re

from shared.ingest.parse.readers.mail.letter import Body

_FOLD = re.compile(r"\n[ \t]")
_LINE = re.compile(r"([A-Za-z-]{1,40})((?:;[^:\"\n]{0,500}(?:\"[^\"\n]{0,500}\")?){0,20}):(.*)")
_NAMES = {
    "SUMMARY": "Summary",
    "DTSTART": "Start",
    "DTEND": "End",
    "DUE": "Due",
    "LOCATION": "Location",
    "ORGANIZER": "Organizer",
    "ATTENDEE": "Attendee",
    "DESCRIPTION": "Description",
    "RRULE": "Repeats",
    "STATUS": "Status",
}
_COMMON_NAME = re.compile(r";CN=\"?([^\";:]{1,200})", re.IGNORECASE)
_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)\d\d(Z?))?")
_ZONE = re.compile(r";TZID=\"?([^\";:]{1,100})", re.IGNORECASE)
_ESCAPED = re.compile(r"\\([\\;,nN])")


def body(calendar: str) -> Body:
    """Return the events of a calendar, a line for each property that people see."""
    lines, events = list[str](), False
    hidden = 0
    for line in _FOLD.sub("", calendar.replace("\r\n", "\n")).split("\n"):
        name = line.partition(":")[0].partition(";")[0].strip().upper()
        if name in ("BEGIN", "END"):
            inner = line.partition(":")[2].strip().upper()
            events |= inner in ("VEVENT", "VTODO", "VJOURNAL")
            if inner in ("VTIMEZONE", "VALARM"):
                hidden += 1 if name == "BEGIN" else -1
            elif name == "END" and lines:
                lines.append("")
        elif not hidden and name in _NAMES and (found := _LINE.match(line)):
            lines += _shown(name, found[2], found[3])
    text = "\n".join(lines).strip() if events else calendar
    return Body(text, text)


def _shown(name: str, parameters: str, value: str) -> list[str]:
    value = _ESCAPED.sub(lambda mark: "\n" if mark[1] in "nN" else mark[1], value).strip()
    if found := _TIME.fullmatch(value):
        value = f"{found[1]}-{found[2]}-{found[3]}"
        if found[4]:
            zone = _ZONE.search(parameters)
            value += f" {found[4]}:{found[5]}" + (" UTC" if found[6] else f" ({zone[1]})" if zone else "")
    if common := _COMMON_NAME.search(parameters):
        value = f"{common[1]} <{value.partition(':')[2] or value}>"
    value = value.removeprefix("mailto:").removeprefix("MAILTO:")
    return [f"{_NAMES[name]}: {value}"] if value else []
