"""Pictures of items, served from a folder and from nowhere else."""

import httpx
import numpy as np
import pytest

from similia.service.http.app import Service
from similia.service.http.keys import Keys
from similia.service.http.pages import IMAGE_MEDIA, Images
from similia.service.settings import Settings
from similia.service.tenants.files import ItemFile
from tests.service.conftest import Running

PIXEL = b"\x89PNG\r\n\x1a\n and pixels"


@pytest.fixture
def folder(tmp_path):
    found = tmp_path / "pictures"
    (found / "red").mkdir(parents=True)
    (tmp_path / "secret.png").write_bytes(b"secret")
    (found / "a b.png").write_bytes(PIXEL)
    (found / "red" / "shoe.JPG").write_bytes(PIXEL)
    (found / "drawn.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (found / "notes.txt").write_text("private")
    (found / "out.png").symlink_to(tmp_path / "secret.png")
    return found


def test_an_item_has_the_picture_named_like_its_id(folder):
    images = Images(folder)
    assert images.address("a b") == images.address("a b.png") == "/images/a%20b.png"
    assert images.address("red/shoe") == "/images/red/shoe.JPG"
    assert [images.address(id) for id in ("drawn", "notes", "out", "nothing", "../secret")] == (
        [None] * 5
    )


def test_nothing_that_can_hold_a_script_is_a_picture():
    assert not {".svg", ".html", ".xml", ".pdf"} & set(IMAGE_MEDIA)


def test_a_folder_without_pictures_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"images: folder must hold .*\.png"):
        Images(tmp_path)
    with pytest.raises(ValueError, match="images: folder must be one that exists"):
        Images(tmp_path / "nothing")


def test_pictures_are_served_and_other_files_are_not(folder, tmp_path):
    np.savez(tmp_path / "items.npz", X=np.eye(3, 4), ids=np.array(["a b", "red/shoe", "c"]))
    images = Images(folder)
    settings = Settings(store=str(tmp_path / "store"), port=0, rate=0.0)
    service = Service(
        settings, items=ItemFile(tmp_path / "items.npz", images=images), images=images
    )
    with Running(service) as running, httpx.Client(base_url=running.url) as client:
        shown = client.post("/v1/default/judging/items", json={"ids": ["a b", "c"]}).json()
        address = shown["items"][0]["image"]
        assert "image" not in shown["items"][1]
        answer = client.get(address)
        assert (answer.status_code, answer.content) == (200, PIXEL)
        assert answer.headers["content-type"] == "image/png"
        assert answer.headers["x-content-type-options"] == "nosniff"
        for wrong in ("drawn.svg", "notes.txt", "out.png", "..%2fsecret.png", "%2fetc%2fpasswd"):
            assert client.get(f"/images/{wrong}").status_code == 404
        assert client.get(address, headers={"host": "elsewhere.example"}).status_code == 403


def test_pictures_and_keys_do_not_go_together(folder, tmp_path):
    settings = Settings(store=str(tmp_path / "store"), port=0)
    Keys(settings.key_file).add("default", ("admin",))
    with pytest.raises(ValueError, match="images: the service must have no keys"):
        Service(settings, images=Images(folder))
