"""Print again every output that README and docs show: `python -m docs.refresh [--check] [PAGE...]`.

A block that is to be kept true is preceded by a comment that names its command:

    <!-- run: keyhole demo -->
    ```console
    $ keyhole demo
    ...
    ```

A command may have several lines. It runs in a folder that holds the files of `keyhole demo`; what it prints replaces
the block. A page with the comment `needs: KEYHOLE_DATA` shows third-party data: it is left as it is where that variable
names no folder.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"<!-- run: (?P<command>.+?) -->\n```console\n.*?```", re.DOTALL)


def pages() -> list[Path]:
    """Every page that may hold printed output."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def lacks_data(text: str) -> bool:
    """Does a page need third-party data that are not here?"""
    return "<!-- needs: KEYHOLE_DATA -->" in text and not Path(os.environ.get("KEYHOLE_DATA", "/nowhere")).is_dir()


def environment_of(programs: Path) -> dict[str, str]:
    """The variables under which commands print what a page shows, with the programs of this folder first."""
    env = {**os.environ, "NO_COLOR": "1", "COLUMNS": "100", "TERM": "dumb", "CHECKOUT": str(ROOT)}
    return env | {"PATH": f"{programs}{os.pathsep}{env['PATH']}"}


def printed(command: str, folder: Path, env: dict[str, str] | None = None) -> str:
    """What a command prints, as a console block; exit codes other than 0 are shown."""
    result = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=env or environment_of(Path(sys.executable).parent),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    text = "\n".join(line.rstrip() for line in (result.stdout + result.stderr).rstrip().splitlines())
    code = f"\n$ echo $?\n{result.returncode}" if result.returncode else ""
    return f"<!-- run: {command} -->\n```console\n$ {command}\n{text}{code}\n```"


def refreshed(text: str, folder: Path, env: dict[str, str] | None = None) -> str:
    """A page with every block printed again."""
    return BLOCK.sub(lambda found: printed(found["command"], folder, env), text)


def main() -> int:
    """Rewrite the pages, or with --check only say which are out of date."""
    stale = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        printed("keyhole demo .", folder)
        asked = [word for word in sys.argv[1:] if not word.startswith("-")]
        for page in (page for page in pages() if not asked or page.name in asked):
            text = page.read_text(encoding="utf-8")
            if lacks_data(text):
                sys.stdout.write(f"left as it is: {page.name} (set KEYHOLE_DATA to the folder of third-party data)\n")
                continue
            new = refreshed(text, folder)
            if new != text:
                stale.append(page.name)
                if "--check" not in sys.argv:
                    page.write_text(new, encoding="utf-8")
    sys.stdout.write(f"{'stale' if '--check' in sys.argv else 'printed again'}: {', '.join(stale) or 'none'}\n")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    raise SystemExit(main())
