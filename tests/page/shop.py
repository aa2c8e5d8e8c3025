"""A small shop for tests and pictures of the pages: texts, prices, and vectors of their words."""

import zlib

import numpy as np

from similia.service.log.records import Item, Query

WIDTH = 32
GOODS = {
    "boot-ridge": ("Leather hiking boot with a stiff sole for rocky ridges", 189.0),
    "boot-marsh": ("Rubber boot, warm lining, for marsh and garden", 49.0),
    "boot-city": ("Ankle boot in black leather for the city", 129.0),
    "boot-snow": ("Insulated snow boot with a deep tread", 139.0),
    "shoe-trail": ("Light trail running shoe with a grippy sole", 119.0),
    "shoe-road": ("Road running shoe with a soft, springy sole", 109.0),
    "shoe-hike": ("Low hiking shoe, waterproof, with a rock plate", 134.0),
    "shoe-boat": ("Boat shoe in blue canvas with a white sole", 69.0),
    "sandal-river": ("River sandal with wide straps that dry fast", 59.0),
    "sandal-beach": ("Foam sandal for beach and pool", 19.0),
    "slipper-felt": ("Felt slipper with a cork sole", 39.0),
    "sock-wool": ("Merino wool hiking sock, medium height", 18.0),
    "sock-run": ("Thin running sock with a padded heel", 12.0),
    "jacket-rain": ("Rain jacket, three layers, with a hood that fits a helmet", 249.0),
    "jacket-down": ("Down jacket, packs into its own pocket", 199.0),
    "jacket-wind": ("Thin wind jacket for running and cycling", 89.0),
    "pants-hike": ("Hiking trousers with zip-off legs", 79.0),
    "pants-rain": ("Waterproof trousers with full side zips", 99.0),
    "pack-day": ("Day pack of 22 litres with a rain cover", 85.0),
    "pack-long": ("Trekking pack of 60 litres with a wide hip belt", 229.0),
    "pole-carbon": ("Folding carbon trekking poles", 119.0),
    "tent-two": ("Tent for two with a waterproof floor, 1.9 kg", 349.0),
    "bag-summer": ("Light sleeping bag for summer nights", 95.0),
    "stove-gas": ("Small gas stove that boils water in three minutes", 45.0),
}
ASKED = {
    "rocky": "hiking shoe for rocky paths",
    "rain": "waterproof jacket for rain",
    "summer": "light shoe for warm summer days",
    "warm": "warm boots for snow",
}


def vector(text: str) -> list[float]:
    """Words of a text, hashed into a few numbers."""
    found = np.zeros(WIDTH)
    for word in text.lower().replace(",", " ").split():
        code = zlib.crc32(word.rstrip("s").encode())
        found[code % WIDTH] += 1.0 if code & 64 else -1.0
    return (found / max(np.linalg.norm(found), 1e-9)).tolist()


def goods() -> list[Item]:
    """The items of the shop."""
    return [
        Item(id=id, vectors={"vectors": vector(text)}, text=text, fields={"price": price})
        for id, (text, price) in GOODS.items()
    ]


def asked() -> list[Query]:
    """What people search for in it."""
    return [
        Query(id=id, text=text, vectors={"vectors": vector(text)}) for id, text in ASKED.items()
    ]
