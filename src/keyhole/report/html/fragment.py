"""A piece of a page for a notebook: with its own style, which touches nothing around it."""

from __future__ import annotations

import re
from functools import cache

from keyhole.report.html.markup import Markup, tag
from keyhole.report.html.page import chart_style

PLAIN = """
.keyhole { background: var(--paper); color: var(--ink); padding: .2rem .6rem; max-width: 62rem; }
.keyhole svg { display: block; max-width: 46rem; width: 100%; height: auto; } .keyhole figure { margin: .6rem 0; }
.keyhole figcaption, .keyhole .soft, .keyhole summary { color: var(--soft); font-size: .9em; }
.keyhole .key span { margin-right: 1em; font-size: .85em; } .keyhole td.n, .keyhole th.n { text-align: right; }
.keyhole .key i { display: inline-block; width: .8em; height: .8em; margin-right: .35em; background: var(--line); }
.keyhole .key .exposed { background: var(--bad); } .keyhole .key .inferred { background: var(--warn); }
.keyhole .key .open, .keyhole .key .s0 { background: var(--c0); } .keyhole .key .s1 { background: var(--c1); }
"""


def fragment(*parts: object) -> str:
    """The parts inside one element with its style.

    >>> fragment("a < b").endswith("a &lt; b</div>")
    True
    """
    return str(tag("div", tag("style", Markup(_style())), *parts, class_="keyhole"))


@cache
def _style() -> str:
    """The style of charts, for what is inside alone."""
    scoped = re.sub(r"(^|\}|,|\{)(\s*)svg ", r"\1\2.keyhole svg ", chart_style(), flags=re.MULTILINE)
    return scoped.replace(":root", ".keyhole") + PLAIN
