"""Pictures of items: files of a folder, shown on the page under /images/."""

from pathlib import Path
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import FileResponse
from starlette.routing import Route

from similia.service.http.problems import Problem

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


class Images:
    """Pictures that were in a folder when it was looked at; no other file is ever opened."""

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
        """The files; whoever asks has been let in."""

        async def image(request: Request) -> FileResponse:
            file = self._files.get(request.path_params["name"])
            if file is None or not file.is_file():
                raise Problem(404, "there is no such picture.")
            return FileResponse(file, media_type=IMAGE_MEDIA[file.suffix.lower()])

        return Route(IMAGES_PATH + "{name:path}", image, methods=["GET"])
