"""Pages for browsers: files of this package, under a policy that lets in nothing else."""

import hashlib
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

PAGE_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    )
)
PAGE_MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}


def routes(*, try_page: bool) -> list[BaseRoute]:
    """The page to try the API at /docs, and the pages of `static` at / and /assets/."""
    package = files("similia.service")
    found: list[BaseRoute] = []
    if try_page:
        found += folder(package / "explorer", "/docs", "/docs/")
    static = package / "static"
    if static.is_dir():
        found += folder(static, "/", "/assets/")
    return found


def folder(source: Traversable, index: str, prefix: str) -> list[BaseRoute]:
    """Routes for the files of a folder; its index.html is at `index`, the others below `prefix`."""
    found: list[BaseRoute] = []
    for name, file in _walk(source):
        suffix = "." + name.rpartition(".")[2]
        if suffix in PAGE_MEDIA:
            path = index if name == "index.html" else prefix + name
            found.append(_route(path, file.read_bytes(), PAGE_MEDIA[suffix]))
    return found


def _walk(source: Traversable, before: str = "") -> "list[tuple[str, Traversable]]":
    found = []
    for entry in sorted(source.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            found += _walk(entry, f"{before}{entry.name}/")
        else:
            found.append((before + entry.name, entry))
    return found


def _route(path: str, content: bytes, media: str) -> Route:
    tag = f'"{hashlib.blake2b(content, digest_size=12).hexdigest()}"'
    headers = {
        "content-security-policy": PAGE_POLICY,
        "cache-control": "no-cache",
        "etag": tag,
    }

    async def page(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=media)

    return Route(path, page, methods=["GET"])
