"""A chart as one file: a self-contained HTML page that needs no network, or SVG, or PNG."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Protocol

from keyhole.errors import ConfigError, MissingExtra

SUFFIXES = (".html", ".svg", ".png")


class Chart(Protocol):
    """What an Altair chart has."""

    def to_dict(self) -> dict[str, object]:
        """Its Vega-Lite specification."""


def write_chart(chart: Chart, path: Path, *, title: str) -> None:
    """Write `chart` to `path` as its suffix says: .html (about 1 MB, offline, interactive), .svg or .png.

    Needs the `plot` extra.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ConfigError(f"cannot plot to {path.name}: write a name that ends in {', '.join(SUFFIXES)}")
    try:
        import vl_convert
    except ImportError as error:
        raise MissingExtra("plotting", "plot") from error
    spec = chart.to_dict()
    try:
        if suffix == ".svg":
            path.write_text(vl_convert.vegalite_to_svg(spec), encoding="utf-8")
        elif suffix == ".png":
            path.write_bytes(vl_convert.vegalite_to_png(spec, scale=2))
        else:
            path.write_text(
                _page(spec, title, vl_convert.javascript_bundle("window.embed = vegaEmbed;")), encoding="utf-8"
            )
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error


def _page(spec: dict[str, object], title: str, script: str) -> str:
    # "</" inside a script element would end it, wherever it stands
    chart = json.dumps(spec).replace("</", "<\\/")
    script = script.replace("</script", "<\\/script")
    return f"""<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>{html.escape(title)}</title></head>
<body style="font-family: sans-serif; margin: 2em">
<div id="chart"></div>
<script type="module">
{script}
window.embed("#chart", {chart}, {{actions: false}});
</script>
</body>
</html>
"""
