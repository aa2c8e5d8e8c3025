"""The other direction of `experiments.datasets.lzw`, for files that tests make up."""


class _Codes:
    """Bits, lowest first, in groups of eight codes that are filled up when the width changes."""

    def __init__(self):
        self.content, self.bits, self.n_bits = bytearray(), 0, 0

    def add(self, code, width):
        self.bits |= code << self.n_bits
        self.n_bits += width
        if self.n_bits == 8 * width:
            self.end_group(width)

    def end_group(self, width):
        if self.n_bits:
            self.content += self.bits.to_bytes(width, "little")
        self.bits = self.n_bits = 0

    def ended(self):
        return bytes(self.content) + self.bits.to_bytes((self.n_bits + 7) // 8, "little")


def compressed(content, *, max_width=16, clear_after=None):
    """What compress would write, with the table emptied after so many codes, if asked for."""
    codes, width, table = _Codes(), 9, {bytes([byte]): byte for byte in range(256)}
    n_known, n_codes, known = 257, 0, b""
    for byte in content:
        longer = known + bytes([byte])
        if longer in table:
            known = longer
            continue
        codes.add(table[known], width)
        n_codes += 1
        if n_known == 1 << width and width < max_width:
            codes.end_group(width)
            width += 1
        if n_known < 1 << max_width:
            table[longer] = n_known
            n_known += 1
        known = bytes([byte])
        if n_codes == clear_after:
            codes.add(256, width)
            codes.end_group(width)
            width, table = 9, {bytes([byte]): byte for byte in range(256)}
            n_known, n_codes = 257, 0
    if known:
        codes.add(table[known], width)
    return bytes([0x1F, 0x9D, 0x80 | max_width]) + codes.ended()
