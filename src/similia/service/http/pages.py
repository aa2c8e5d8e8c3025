"""Files for browsers: the pages of this package, and pictures of items from a folder.

The policy of pages allows nothing else.
"""

import hashlib
from pathlib import Path
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Route, Router
from starlette.types import Receive, Scope, Send

from similia.service.errors import Problem

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
#: what is served, and as what; nothing that can hold a script
IMAGE_MEDIA = {
    ".avif": "image/avif",
    ".gif": "image/gif",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".png": "image/png",
    ".webp": "image/webp",
}
IMAGES_PATH = "/images/"


def page_router(images: "Images | None" = None, *, try_page: bool = True) -> Router:
    """Routes of the API explorer (/docs), the pages in `static` (/, /assets/) and pictures."""
    package = Path(__file__).parents[1]
    routes: list[BaseRoute] = [] if images is None else [images.route()]
    if try_page:
        routes += folder(package / "explorer", "/docs", "/docs/")
    static = package / "static"
    if static.is_dir():
        routes += folder(static, "/", "/assets/")
    return Router(routes, redirect_slashes=False, default=_nothing)


async def _nothing(scope: Scope, receive: Receive, send: Send) -> None:
    raise Problem(404, "there is nothing here.")


def folder(source: Path, index: str, prefix: str) -> list[BaseRoute]:
    """Routes for the files of a folder; its index.html is at `index`, the others below `prefix`."""
    found: list[BaseRoute] = []
    for file in sorted(source.rglob("*")):
        if file.suffix in PAGE_MEDIA:
            name = file.relative_to(source).as_posix()
            path = index if name == "index.html" else prefix + name
            found.append(_route(path, file.read_bytes(), PAGE_MEDIA[file.suffix]))
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


class Images:
    """Pictures found in a folder at the start; no other file is ever opened."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise ValueError(f"images: folder must be one that exists, got {str(folder)!r:.200}.")
        self.folder, root = folder, folder.resolve()
        #: files by their path below the folder
        self._files = {
            path.relative_to(folder).as_posix(): path
            for path in sorted(folder.rglob("*"))
            if path.suffix.lower() in IMAGE_MEDIA
            and path.is_file()
            and path.resolve().is_relative_to(root)
        }
        if not self._files:
            raise ValueError(
                f"images: folder must hold {', '.join(IMAGE_MEDIA)}, got none of them in "
                f"{str(folder)!r:.200}."
            )
        self._stems = {name.rpartition(".")[0]: name for name in self._files}

    def address(self, id: str) -> str | None:
        """Where the picture of an item is: the file named like its id, with or without a suffix."""
        name = id if id in self._files else self._stems.get(id)
        return None if name is None else IMAGES_PATH + quote(name)

    def route(self) -> Route:
        """Route of the pictures; callers are admitted before."""

        async def image(request: Request) -> FileResponse:
            file = self._files.get(request.path_params["name"])
            if file is None or not file.is_file():
                raise Problem(404, "there is no such picture.")
            return FileResponse(file, media_type=IMAGE_MEDIA[file.suffix.lower()])

        return Route(IMAGES_PATH + "{name:path}", image, methods=["GET"])
