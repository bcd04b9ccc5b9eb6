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
