"""Arrays with known answers as tests read them (golden_file.h), and what makers of them share. Wants the
NumPy forward pass `oracle` on the path."""
import json, os, struct
import numpy as np
import oracle

F32 = np.float32

def save(path, tensors):
    """float32 arrays that hold BF16 values are stored as BF16, integers as I64, all others as F32."""
    head, blobs, offset = {}, [], 0
    for key, value in tensors.items():
        value = np.ascontiguousarray(value)
        if value.dtype.kind in 'iu': dtype, data = 'I64', value.astype(np.int64)
        elif value.dtype == np.float32 and not (value.view(np.uint32) & 0xFFFF).any():
            dtype, data = 'BF16', (value.view(np.uint32) >> 16).astype(np.uint16)
        else: dtype, data = 'F32', value.astype(F32)
        end = offset + data.nbytes
        head[key] = {'dtype': dtype, 'shape': list(value.shape), 'data_offsets': [offset, end]}
        offset = end; blobs.append(data.tobytes())
    text = json.dumps(head).encode(); text += b' ' * (-len(text) % 8)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'wb') as f: f.write(struct.pack('<Q', len(text)) + text + b''.join(blobs))
    print(f'{os.path.basename(path)}: {offset} bytes', flush=True)

def checksum(folder):
    """Weighted sum of the data's 64-bit words (zeros fill the last): whether a test has the same weights."""
    raw = open(os.path.join(folder, 'model.safetensors'), 'rb').read()
    data = raw[8 + struct.unpack('<Q', raw[:8])[0]:]
    words = np.frombuffer(data + bytes(-len(data) % 8), np.uint64)
    weights = 2 * np.arange(words.size, dtype=np.uint64) + np.uint64(1)
    return (words * weights).sum(dtype=np.uint64).view(np.int64)

class OddScales(oracle.Checkpoint):
    """Scale i of an FP8 matrix in float32, times 1 + ((37 i + 11) mod 4096) / 4096: as Base and repacks may
    have them (releases.h, `odd_factor`)."""
    def get(self, k):
        if self.kind(k) != 'F8_E4M3': return super().get(k)
        codes = self.raw(k)[1]
        s = np.ldexp(F32(1), self.raw(k.replace('.weight', '.scale'))[1].astype(np.int32) - 127)
        odd = 1 + ((37 * np.arange(s.size).reshape(s.shape) + 11) % 4096) / 4096
        blocks = np.repeat(np.repeat((s * odd).astype(F32), 128, 0), 128, 1)
        return (oracle.E4M3_LUT[codes] * blocks[:codes.shape[0], :codes.shape[1]]).astype(F32)

class OddNvfp4(oracle.Checkpoint):
    """Codes of the layers' MXFP4 experts with NVFP4's scales: of each 16 weights an E4M3 number, of each
    matrix one in float32 (releases.h, `make_nvfp4`)."""
    def get(self, k):
        if not k.startswith('layers.') or '.ffn.experts.' not in k: return super().get(k)
        packed = self.raw(k)[1].view(np.uint8)
        codes = np.stack([packed & 15, packed >> 4], -1).reshape(packed.shape[0], -1)
        e8m0 = self.raw(k.replace('.weight', '.scale'))[1].astype(np.int64)
        exponents = np.repeat(e8m0, 2, 1) - int(e8m0.max()) + 14  # in e4m3's field: the largest has 2^7
        fractions = (5 * np.arange(exponents.size).reshape(exponents.shape) + 3) % 8
        scales = oracle.E4M3_LUT[(np.maximum(exponents, 1) * 8 + fractions).astype(np.uint8)]
        odd = 1 + ((37 * sum(k[:-7].encode()) + 11) % 4096) / 4096
        matrix_scale = F32(np.ldexp(odd, int(e8m0.max()) - 134))
        return (oracle.E2M1_LUT[codes] * np.repeat(scales, 16, 1) * matrix_scale).astype(F32)
