"""The front of the site: a page per version stays, and the address without one leads to the newest.

    python docs/versions.py build/site

Reads which versions the folder has, and writes ``versions.json``, ``versions.html`` with a link to
each, and ``index.html``, which leads to the newest release (or the newest version, if none is one).
"""

import json
import sys
from pathlib import Path

from packaging.version import InvalidVersion, Version

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>similia</title>{head}
<style>
body {{ font: 1.1rem/1.6 sans-serif; margin: 3rem auto; max-width: 40rem; padding: 0 1rem }}
</style>
</head>
<body>
{body}
</body>
</html>
"""


def versions(site: Path) -> list[Version]:
    """Versions that have a site, newest first."""
    found = []
    for page in site.glob("*/index.html"):
        try:
            found.append(Version(page.parent.name))
        except InvalidVersion:
            continue
    return sorted(found, reverse=True)


def write_front(site: Path) -> None:
    """Write the pages above the versions."""
    found = versions(site)
    if not found:
        raise SystemExit(f"versions: {site} must hold a built version; run make docs.")
    newest = next((v for v in found if not v.is_prerelease), found[0])
    listed = [{"version": str(v), "url": f"{v}/", "preferred": v == newest} for v in found]
    (site / "versions.json").write_text(json.dumps(listed, indent=1) + "\n")
    links = "\n".join(f'<li><a href="{v}/index.html">similia {v}</a></li>' for v in found)
    body = f"<h1>Versions of this site</h1>\n<ul>\n{links}\n</ul>"
    (site / "versions.html").write_text(PAGE.format(head="", body=body))
    target = f"{newest}/index.html"
    head = f'\n<meta http-equiv="refresh" content="0; url={target}">'
    body = f'<p><a href="{target}">similia {newest}</a></p>'
    (site / "index.html").write_text(PAGE.format(head=head, body=body))


if __name__ == "__main__":
    write_front(Path(sys.argv[1]))
