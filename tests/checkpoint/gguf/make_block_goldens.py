#!/usr/bin/python3
"""Makes goldens/blocks.safetensors: blocks of each GGUF type by formula, and their values by NumPy.

    /usr/bin/python3 tests/checkpoint/gguf/make_block_goldens.py

Layouts are those of ggml's documentation of its types, written here a second time, whole arrays at a time; the
rows of the IQ grids are read from src/checkpoint/gguf/iq_grids.cc.
"""
import json
import pathlib
import re
import struct

import numpy as np

HERE = pathlib.Path(__file__).parent
GRIDS = HERE.parents[2] / "src/checkpoint/gguf/iq_grids.cc"
BLOCKS = 3
F32 = np.float32


def grid(name, width, steps):
    body = re.search(rf"k{name}Grid\{{(.*?)\}}\}};", GRIDS.read_text(), re.S).group(1)
    rows = np.array([int(code, 16) for code in re.findall(r"0x([0-9A-F]{4})", body)], np.uint16)
    bits = 16 // width
    codes = rows[:, None] >> (bits * np.arange(width, dtype=np.uint16)) & ((1 << bits) - 1)
    return np.array(steps, F32)[codes]


TWO = [8, 25, 43]
GRID = {
    "IQ2_XXS": grid("Iq2Xxs", 8, TWO),
    "IQ2_XS": grid("Iq2Xs", 8, TWO),
    "IQ2_S": grid("Iq2S", 8, TWO),
    "IQ3_XXS": grid("Iq3Xxs", 4, [4, 12, 20, 28, 36, 44, 52, 62]),
    "IQ3_S": grid("Iq3S", 4, [1, 3, 5, 7, 9, 11, 13, 15]),
}
IQ4 = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], F32)
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], F32)


def half(blocks, at):
    return blocks[:, at:at + 2].copy().view(np.float16).astype(F32)


def word(blocks, at, count, kind):
    size = np.dtype(kind).itemsize
    return blocks[:, at:at + count * size].copy().view(kind)


def nibbles(data):
    """Low one of each byte first."""
    return np.stack([data & 15, data >> 4], -1).reshape(len(data), -1)


def halves(data, size):
    """Runs of `size` bytes: their low nibbles, then their high ones."""
    runs = data.reshape(len(data), -1, 1, size)
    return np.concatenate([runs & 15, runs >> 4], 2).reshape(len(data), -1)


def bits(data):
    return np.unpackbits(data, axis=-1, bitorder="little")


def pairs_of_bits(data):
    """Runs of 32 bytes: their lowest two bits, then the next, ..."""
    runs = data.reshape(len(data), -1, 1, 32)
    return (runs >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3).reshape(len(data), -1)


def spread(groups, size):
    return np.repeat(groups, size, axis=1)


def q4_0(b):
    return half(b, 0) * (halves(b[:, 2:], 16).astype(F32) - 8)


def q4_1(b):
    return half(b, 0) * halves(b[:, 4:], 16).astype(F32) + half(b, 2)


def q5_0(b):
    return half(b, 0) * ((halves(b[:, 6:], 16) | bits(b[:, 2:6]) << 4).astype(F32) - 16)


def q5_1(b):
    return half(b, 0) * (halves(b[:, 8:], 16) | bits(b[:, 4:8]) << 4).astype(F32) + half(b, 2)


def q8_0(b):
    return half(b, 0) * b[:, 2:].view(np.int8).astype(F32)


def mxfp4(b):
    code = halves(b[:, 1:], 16)
    sign = np.where(code & 8, F32(-1), F32(1))
    return np.exp2(b[:, :1].astype(F32) - 127) * (sign * E2M1[code & 7])


def q2_k(b):
    scale = half(b, 80) * (b[:, :16] & 15).astype(F32)
    offset = half(b, 82) * (b[:, :16] >> 4).astype(F32)
    return spread(scale, 16) * pairs_of_bits(b[:, 16:80]).astype(F32) - spread(offset, 16)


def q3_k(b):
    # Bit i of byte l of the mask is element 32 i + l.
    high = np.stack([b[:, :32] >> i & 1 for i in range(8)], 1).reshape(len(b), 256)
    code = pairs_of_bits(b[:, 32:96]).astype(F32) - 4 * (1 - high.astype(F32))
    low = np.concatenate([b[:, 96:104] & 15, b[:, 96:104] >> 4], 1)
    top = np.concatenate([b[:, 104:108] >> 2 * i & 3 for i in range(4)], 1)
    return spread(half(b, 108) * ((low | top << 4).astype(F32) - 32), 16) * code


def six_bits(p):
    first, second, third = p[:, :4], p[:, 4:8], p[:, 8:]
    scale = np.concatenate([first & 63, (third & 15) | (first >> 6) << 4], 1)
    offset = np.concatenate([second & 63, third >> 4 | (second >> 6) << 4], 1)
    return scale.astype(F32), offset.astype(F32)


def k_values(b, code):
    scale, offset = six_bits(b[:, 4:16])
    return spread(half(b, 0) * scale, 32) * code.astype(F32) - spread(half(b, 2) * offset, 32)


def q4_k(b):
    return k_values(b, halves(b[:, 16:], 32))


def q5_k(b):
    high = np.stack([b[:, 16:48] >> i & 1 for i in range(8)], 1).reshape(len(b), 256)
    return k_values(b, halves(b[:, 48:], 32) | high << 4)


def q6_k(b):
    code = (halves(b[:, :128], 64) | pairs_of_bits(b[:, 128:192]) << 4).astype(F32) - 32
    return spread(half(b, 208) * b[:, 192:208].view(np.int8).astype(F32), 16) * code


def iq4_nl(b):
    return half(b, 0) * IQ4[halves(b[:, 2:], 16)]


def iq4_xs(b):
    high = word(b, 2, 1, np.uint16) >> 2 * np.arange(8, dtype=np.uint16) & 3
    scale = (nibbles(b[:, 4:8]) | high.astype(np.uint8) << 4).astype(F32) - 32
    return spread(half(b, 0) * scale, 32) * IQ4[halves(b[:, 8:], 16)]


def seven_signs(codes):
    """[..] of seven bits to [.., 8]: the last one makes the number of minus signs even."""
    seven = codes[..., None] >> np.arange(7, dtype=codes.dtype) & 1
    last = seven.sum(-1, keepdims=True) & 1
    return np.where(np.concatenate([seven, last], -1) != 0, F32(-1), F32(1))


def eight_signs(data):
    return np.where(bits(data) != 0, F32(-1), F32(1))


def flat(*shapes):
    out = shapes[0]
    for other in shapes[1:]:
        out = out * other
    return out.reshape(len(out), -1)


def iq2_xxs(b):
    both = word(b, 2, 16, np.uint32).reshape(len(b), 8, 2)
    rows = both[..., 0].copy().view(np.uint8).reshape(len(b), 32)
    scale = half(b, 0) * (F32(0.5) + (both[..., 1] >> 28).astype(F32)) * F32(0.25)
    signs = seven_signs((both[..., 1:] >> 7 * np.arange(4, dtype=np.uint32) & 127).reshape(len(b), 32))
    return flat(spread(scale, 4)[..., None] * GRID["IQ2_XXS"][rows], signs)


def quarters(b, data):
    return half(b, 0) * (F32(0.5) + nibbles(data).astype(F32)) * F32(0.25)


def iq2_xs(b):
    code = word(b, 2, 32, np.uint16)
    scale = spread(quarters(b, b[:, 66:]), 2)
    return flat(scale[..., None] * GRID["IQ2_XS"][code & 511], seven_signs(code >> 9))


def iq2_s(b):
    high = np.stack([b[:, 66:74] >> 2 * i & 3 for i in range(4)], -1).reshape(len(b), 32)
    rows = b[:, 2:34] | high.astype(np.uint16) << 8
    scale = spread(quarters(b, b[:, 74:]), 2)
    return flat(scale[..., None] * GRID["IQ2_S"][rows], eight_signs(b[:, 34:66]).reshape(len(b), 32, 8))


def iq3_xxs(b):
    rest = word(b, 66, 8, np.uint32)
    scale = half(b, 0) * (F32(0.5) + (rest >> 28).astype(F32)) * F32(0.5)
    signs = seven_signs((rest[..., None] >> 7 * np.arange(4, dtype=np.uint32) & 127).reshape(len(b), 32))
    values = GRID["IQ3_XXS"][b[:, 2:66]].reshape(len(b), 32, 8)
    return flat(spread(scale, 4)[..., None] * values, signs)


def iq3_s(b):
    rows = b[:, 2:66] | bits(b[:, 66:74]).astype(np.uint16) << 8
    scale = half(b, 0) * (1 + 2 * nibbles(b[:, 106:]).astype(F32))
    values = GRID["IQ3_S"][rows].reshape(len(b), 32, 8)
    return flat(spread(scale, 4)[..., None] * values, eight_signs(b[:, 74:106]).reshape(len(b), 32, 8))


# Type: id, bytes of a block, where its halves are, values.
TYPES = {
    "Q4_0": (2, 18, [0], q4_0), "Q4_1": (3, 20, [0, 2], q4_1), "Q5_0": (6, 22, [0], q5_0),
    "Q5_1": (7, 24, [0, 2], q5_1), "Q8_0": (8, 34, [0], q8_0), "Q2_K": (10, 84, [80, 82], q2_k),
    "Q3_K": (11, 110, [108], q3_k), "Q4_K": (12, 144, [0, 2], q4_k), "Q5_K": (13, 176, [0, 2], q5_k),
    "Q6_K": (14, 210, [208], q6_k), "IQ2_XXS": (16, 66, [0], iq2_xxs), "IQ2_XS": (17, 74, [0], iq2_xs),
    "IQ3_XXS": (18, 98, [0], iq3_xxs), "IQ4_NL": (20, 18, [0], iq4_nl), "IQ3_S": (21, 110, [0], iq3_s),
    "IQ2_S": (22, 82, [0], iq2_s), "IQ4_XS": (23, 136, [0], iq4_xs), "MXFP4": (39, 17, [], mxfp4),
}


def main():
    tensors = {}
    for seed, (name, (_, size, at, values)) in enumerate(TYPES.items()):
        random = np.random.default_rng(1000 + seed)
        blocks = random.integers(0, 256, (BLOCKS, size), np.uint8)
        for place in at:
            some = (random.standard_normal(BLOCKS) * 0.01).astype(np.float16)
            some[0] = np.float16(3e-6)  # a subnormal half
            blocks[:, place:place + 2] = some[:, None].view(np.uint8)
        if name == "MXFP4":
            blocks[:, 0] = [0, 120, 130]
        tensors[name + ".blocks"] = ("U8", blocks)
        tensors[name + ".values"] = ("F32", np.ascontiguousarray(values(blocks), F32))
    header, data = {}, b""
    for name, (dtype, array) in tensors.items():
        raw = array.tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    (HERE / "goldens").mkdir(exist_ok=True)
    (HERE / "goldens/blocks.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


if __name__ == "__main__":
    main()
