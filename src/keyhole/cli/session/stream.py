"""What is said of a stream of statements: each at once, as text or JSON lines, or all of them as one page."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TextIO

from keyhole.cli.shared.terminal import escape_json
from keyhole.config.arguments import Format


@dataclass(slots=True)
class StreamWriter:
    """What is said of a stream: each statement at once, as text or JSON lines, or all of them as one page.

    Inside `with`; a page is written at its end, whatever ended it.
    """

    stream: TextIO
    how: Format
    page: list[dict[str, Any]] = field(default_factory=list)

    def write(self, said: dict[str, Any], text: Callable[[], Iterable[str]]) -> None:
        """One statement: `said` for machines, `text` for people."""
        if self.how is Format.HTML:
            self.page.append(said)
            return
        if self.how is Format.JSON:
            line = json.dumps(said, ensure_ascii=False, default=str)
            self.stream.write((escape_json(line) if self.stream is sys.stdout else line) + "\n")
        else:
            told = text()
            if self.stream is sys.stdout and self.stream.isatty():
                from keyhole.cli.shared.narrow_lines import fit_lines

                wide = shutil.get_terminal_size().columns
                told = [line for line, _ in fit_lines([(line, "") for line in told], wide)]
            self.stream.writelines(f"{line}\n" for line in told)
        self.stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.how is Format.HTML:
            from keyhole.report.html.sessions import render_watch_page

            self.stream.write(render_watch_page(self.page))
            self.stream.flush()
