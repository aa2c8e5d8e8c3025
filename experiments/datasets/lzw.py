"""Files of the Unix program compress (.Z), which the standard library cannot read."""

MAGIC = b"\x1f\x9d"
CLEAR = 256
FIRST_WIDTH = 9


def uncompressed(content: bytes) -> bytes:
    """Undo compress: Lempel, Ziv and Welch's method with codes of at least 9 bits.

    The low five bits of the third byte are the largest width; its highest bit says whether code 256
    empties the table. Codes are stored lowest bit first, in groups of eight; when the width
    changes, the rest of a group is padding.
    """
    if len(content) < 3 or content[:2] != MAGIC:
        raise ValueError(
            f"uncompressed: content must begin with {MAGIC.hex(' ')} and a byte of flags, "
            f"got {content[:3].hex(' ') or 'nothing'}."
        )
    max_width, clears = content[2] & 0x1F, bool(content[2] & 0x80)
    # The entry in place of code 256 is never looked up.
    table = [bytes([byte]) for byte in range(256)] + [b""] * clears
    n_fixed = len(table)
    pieces: list[bytes] = []
    width, previous, at = FIRST_WIDTH, b"", 3
    while at < len(content):
        group = content[at : at + width]
        at += width
        bits = int.from_bytes(group, "little")
        for _ in range(8 * len(group) // width):
            code = bits & ((1 << width) - 1)
            bits >>= width
            if clears and code == CLEAR:
                del table[n_fixed:]
                width, previous = FIRST_WIDTH, b""
                break
            if code < len(table):
                entry = table[code]
            elif previous and code == len(table) < 1 << max_width:
                entry = previous + previous[:1]
            else:
                raise ValueError(
                    f"uncompressed: codes must be known ones, got {code} near byte {at} "
                    f"with {len(table)} known."
                )
            pieces.append(entry)
            if previous and len(table) < 1 << max_width:
                table.append(previous + entry[:1])
            previous = entry
            if len(table) == 1 << width and width < max_width:
                width += 1
                break
    return b"".join(pieces)
