#!/usr/bin/python3
"""Writes rope_golden.json: rows of the rotation tables of the NumPy forward pass that the project is checked against.

    NPY_DISABLE_CPU_FEATURES="AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL" \\
        ./make_rope_golden.py FOLDER_OF_ORACLE > rope_golden.json

Without that variable NumPy raises to float32 powers with a vector routine that is off by a unit in the last place for
some pairs on AVX-512 machines; at position 1,048,575 that turns a pair by a twentieth of a radian.
"""
import json, sys
sys.path.insert(0, sys.argv[1])
import oracle

CONFIG = {'qk_rope_head_dim': 64, 'rope_theta': 10000, 'compress_rope_theta': 160000,
          'rope_scaling': {'factor': 16, 'original_max_position_embeddings': 65536, 'beta_fast': 32, 'beta_slow': 1}}
POSITIONS = [0, 1, 2, 127, 128, 4095, 65535, 65536, 65537, 131071, 524289, 1000003, 1048575]

tables = []
for compressed in (False, True):
    cosine, sine = oracle.rope_table(CONFIG, max(POSITIONS) + 1, compressed)
    for p in POSITIONS:
        row = lambda table: [float(f'{v:.9g}') for v in table[p]]
        tables.append({'compressed': compressed, 'position': p, 'cosine': row(cosine), 'sine': row(sine)})
print('[' + ',\n'.join(json.dumps(t) for t in tables) + ']')
