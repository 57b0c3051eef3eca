"""Write the generated parts of the chart: `python deploy/helm/generate.py [--check]`.

The names of the settings in values.schema.json come from `Settings`, the table of README.md from values.schema.json
and values.yaml, and the alerts and the dashboard from the files of this folder's parent. With `--check` nothing is
written, and the exit code is 1 if a file is outdated.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "foreask"
sys.path.insert(0, str(ROOT))

from shared.settings import Settings  # noqa: E402 - the script is run from any folder
from shared.settings.sources import every_setting, secrets  # noqa: E402

# Variables that the chart sets by itself, by other values or in every container.
SET_BY_CHART = {
    *("FOREASK_API_PORT", "FOREASK_METRICS_PORT", "FOREASK_DATA_DIR", "FOREASK_STORE_URL"),
    "FOREASK_SOURCE_SECRET_*",
}
# Variables of other programs that the processes use.
OF_OTHERS = (
    *("ALL_PROXY", "AWS_ENDPOINT_URL", "AWS_REGION", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"),
    *("REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE"),
)
_TABLE = re.compile(r"(<!-- values -->\n).*(<!-- end of values -->)", re.DOTALL)
_NAMES = re.compile(r'(\{"enum": )\[[^]]*\](\}\n      \]\n    \}\n  \},\n  "properties")')
_LINE = 118


def setting_names() -> list[str]:
    """Return the variables that `settings` may have: every setting without secrets that the chart does not set."""
    hidden = {f"FOREASK_{name}".upper() for name, _ in secrets(Settings)} | SET_BY_CHART
    return sorted({variables[0] for variables in every_setting(Settings)} - hidden | set(OF_OTHERS))


def schema() -> str:
    """Return values.schema.json with the names of the settings."""
    lines, line = [], ""
    for name in setting_names():
        if len(line) + len(name) > _LINE - 12:
            lines.append(line.rstrip())
            line = ""
        line += f'"{name}", '
    lines.append(line.rstrip(", "))
    names = "[\n          " + "\n          ".join(lines) + "\n        ]"
    text, count = _NAMES.subn(lambda match: match[1] + names + match[2], (CHART / "values.schema.json").read_text())
    assert count == 1
    return text


def readme() -> str:
    """Return README.md with the table of the values."""
    described = json.loads((CHART / "values.schema.json").read_text())
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    rows = "\n".join(rows_of(described["properties"], defaults, described["definitions"]))
    table = f"| value | default | meaning |\n|---|---|---|\n{rows}\n"
    text, count = _TABLE.subn(lambda match: match[1] + table + match[2], (CHART / "README.md").read_text())
    assert count == 1
    return text


def rows_of(
    properties: Mapping[str, Any], defaults: Mapping[str, Any], definitions: Mapping[str, Any], prefix: str = ""
) -> Iterator[str]:
    """Yield a row for each value with a description, in the order of the schema."""
    for name, value in properties.items():
        default = defaults.get(name)
        if "description" in value:
            yield f"| `{prefix}{name}` | {_shown(default)} | {value['description']} |"
        elif isinstance(default, Mapping):
            yield from rows_of(value["properties"], default, definitions, f"{prefix}{name}.")


def _shown(value: object) -> str:
    if value in ("", None, [], {}):
        return ""
    if isinstance(value, Mapping):
        counts = {name: value[name] for name in ("replicas", "maxReplicas") if name in value}
        value = counts or value
    text = yaml.safe_dump(value, default_flow_style=True, width=1_000, sort_keys=False).strip()
    return f"`{text.removesuffix('...').strip()}`"


def outputs() -> dict[Path, str]:
    """Return the text of each generated file."""
    copies = {
        CHART / "files" / name: (CHART.parents[1] / name).read_text() for name in ("alerts.yml", "dashboard.json")
    }
    return {CHART / "values.schema.json": schema(), CHART / "README.md": readme(), **copies}


def main() -> int:
    outdated = [path for path, text in outputs().items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv[1:]:
        for path in outdated:
            print(f"{path.relative_to(ROOT)} is outdated: run python deploy/helm/generate.py", file=sys.stderr)
        return bool(outdated)
    for path in outdated:
        path.write_text(outputs()[path])
    return 0


if __name__ == "__main__":
    sys.exit(main())
