#!/usr/bin/python3
"""Writes csa2_golden.safetensors: what the operations of V4.1's attention are given and make in the NumPy forward
pass, in `released`.

    tests/ops/csa2/make_csa2_golden.py ../shared/oracle

Layer 1 has ratio 2, layer 2 ratio 1 and chooses blocks, layer 3 selects among them by keys of layer 2. A token's
row is tiny, another one zeros: what an epsilon would change.
"""
import os, sys
import numpy as np

if len(sys.argv) != 2: sys.exit(__doc__)
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [sys.argv[1], os.path.join(HERE, '..', '..', 'forward'), os.path.join(HERE, '..', '..', 'support')]
import golden_arrays
from oracle import F32, bf16
from v41_oracle import State, V41Model

D, HEADS, INDEX_HEADS, NUM_TOKENS = 64, 2, 8, 27
CONFIG = dict(hidden_size=D, compress_ratios=[0, 2, 1, 1], kv_source_layer_ids=[1, 2], index_source_layer_ids=[1, 2, 3],
              candidate_source_layer_id=2, candidate_topk_blocks=3, candidate_block_size=4,
              index_n_heads=INDEX_HEADS, index_head_dim=128, index_topk=6, num_attention_heads=HEADS, head_dim=512,
              qk_rope_head_dim=64, q_lora_rank=64, o_groups=HEADS, o_lora_rank=512, sliding_window=8,
              rope_theta=10000, compress_rope_theta=160000, rms_norm_eps=1e-20, engram_layer_ids=[],
              rope_scaling=dict(factor=16, beta_fast=32, beta_slow=1, original_max_position_embeddings=65536))


def arrays_of(random):
    arrays = {}
    def matrix(name, out, width): arrays[name] = bf16((random.normal(size=(out, width)) * width ** -0.5).astype(F32))
    def norm(name, width): arrays[name] = bf16(random.uniform(0.5, 1.5, width).astype(F32))
    for layer in (1, 2, 3):
        p = f'layers.{layer}.attn'
        arrays[p + '.attn_sink'] = random.normal(size=HEADS).astype(F32)
        matrix(p + '.wq_a.weight', 64, D); norm(p + '.q_norm.weight', 64)
        matrix(p + '.wq_b.weight', HEADS * 512, 64)
        matrix(p + '.wkv.weight', 512, D); norm(p + '.kv_norm.weight', 512)
        # The output projection changes nothing: its input is seen behind it.
        arrays[p + '.wo_a.weight'] = np.concatenate([np.eye(512, dtype=F32)] * HEADS)
        arrays[p + '.wo_b.weight'] = np.eye(HEADS * 512, dtype=F32)
        matrix(p + '.indexer.wq_b.weight', INDEX_HEADS * 128, 64)
        matrix(p + '.indexer.weights_proj.weight', INDEX_HEADS, D)
        if layer == 3: continue
        matrix(p + '.compressor.wkv.weight', 512, D); norm(p + '.compressor.norm.weight', 512)
        if layer == 1: matrix(p + '.compressor.wgate.weight', 512, D)
        matrix(p + '.indexer.wk.weight', 128, 512); norm(p + '.indexer.k_norm.weight', 128)
    return arrays


class Recorder(V41Model):
    """Keeps what comes out of projections and goes into and out of norms, by the name of their weights."""
    def __init__(self, *args):
        super().__init__(*args)
        self.seen = {}
    def linear(self, x, name):
        y = super().linear(x, name)
        self.seen[name] = np.array(y)
        return y
    def norm(self, x, name):
        y = super().norm(x, name)
        self.seen[name + '.x'], self.seen[name] = np.array(x), np.array(y)
        return y


random = np.random.default_rng(1)
m = Recorder(CONFIG, arrays_of(random), [0], 'released')
x = bf16(random.normal(size=(NUM_TOKENS, D)).astype(F32))
x[5] *= F32(2 ** -24)
x[6] = 0
state, found, out = State(), {}, {}
for layer in (1, 2, 3):
    p = f'layers.{layer}.attn'
    y = m.attention(x, layer, state, found)
    w = lambda name: m.w(f'{p}.{name}')
    if layer != 2:
        out[f'{layer}.kv'] = m.seen[p + '.kv_norm.x']
        out[f'{layer}.kv_norm'] = w('kv_norm.weight')
        out[f'{layer}.window'] = state.window[layer]
        out[f'{layer}.q'] = m.seen[p + '.wq_b']
        out[f'{layer}.sink'] = w('attn_sink')
        out[f'{layer}.out'] = y
    out[f'{layer}.index_q'] = m.seen[p + '.indexer.wq_b']
    out[f'{layer}.index_weights'] = bf16(x @ w('indexer.weights_proj.weight').T)
    out[f'{layer}.selected'] = np.stack([np.pad(top, (0, 6 - len(top)), constant_values=-1) for top in found['top']])
    if layer == 2:
        blocks = [np.unique(np.flatnonzero(row) // 4) for row in found['candidates']]
        out['2.blocks'] = np.stack([np.pad(row, (0, 3 - len(row)), constant_values=-1) for row in blocks])
    if layer == 3: continue
    latents = m.seen[p + '.compressor.norm']
    # Float32 sums of 64 products, as they come.
    out[f'{layer}.latent_kv'] = x @ w('compressor.wkv.weight').T
    if layer == 1: out['1.latent_gate'] = x @ w('compressor.wgate.weight').T
    if layer == 2: out['2.latent_kv'] = bf16(out['2.latent_kv'])
    out[f'{layer}.latent_norm'] = w('compressor.norm.weight')
    out[f'{layer}.latent'] = latents
    out[f'{layer}.key'] = m.seen[p + '.indexer.k_norm.x']
    out[f'{layer}.key_norm'] = w('indexer.k_norm.weight')
    out[f'{layer}.entries'] = state.entries[layer]
    out[f'{layer}.index_keys'] = state.keys[layer]
golden_arrays.save(os.path.join(HERE, 'csa2_golden.safetensors'), out)
