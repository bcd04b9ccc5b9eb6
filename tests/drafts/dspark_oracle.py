"""DSpark, the draft head of V4-Flash-0731 and V4-Pro-0813, in NumPy (source: releases 2.1 and 9.B).

Slow and plain; the main model is that of `oracle`, which must be on the path. Rows of the ring are kept by
slot, as the released code keeps them:

    model = DsparkModel(folder, 'exact')
    logits = model.follow(ids)               # of the main layers; model.inputs[p] is u of position p
    rings = model.prefill(len(ids))          # one ring a stage, of the last 128 positions
    block = model.draft(rings, len(ids) - 1, fed)
    block.logits[i]                          # Markov head included, of the token behind fed[i]
"""
import dataclasses
import numpy as np
import oracle
from oracle import F32, bf16, fp8_sim, rope, rope_table

@dataclasses.dataclass
class Block:
    logits: np.ndarray       # [B, V], of what follows each of `fed`
    confidence: np.ndarray   # [B], before the sigmoid
    fed: list                # y_0 .. y_{B-1}: the token that the position behind the ring has, then drafts

class Ring:
    """KV rows of a stage's last positions: p in slot p mod W. Only tokens of the target are written."""
    def __init__(self, num_slots, width): self.rows = np.full((num_slots, width), np.nan, F32)
    def prefill(self, rows):
        """As the released code splits them: the last W rows of a prompt, in two pieces."""
        num_slots, num = len(self.rows), len(rows)
        if num <= num_slots: self.rows[:num] = rows; return
        cutoff = num % num_slots
        last = rows[-num_slots:]
        self.rows[cutoff:], self.rows[:cutoff] = last[:num_slots - cutoff], last[num_slots - cutoff:]
    def write(self, position, row): self.rows[position % len(self.rows)] = row
    def written(self, position): return self.rows[:min(len(self.rows), position + 1)]

class DsparkModel(oracle.Model):
    def __init__(self, folder, precision='exact'):
        super().__init__(folder, precision)
        c = self.cfg
        self.stages = sorted({n.split('.')[1] for n in self.ck.where if n.startswith('mtp.')}, key=int)
        self.first, self.last = f'mtp.{self.stages[0]}', f'mtp.{self.stages[-1]}'
        self.block_size, self.targets = c['dspark_block_size'], c['dspark_target_layer_ids']
        self.streams, self.drafting = {}, None

    # -- the main layers, and what the head keeps of them
    def block(self, h, p, ratio, ids, point):
        out = super().block(h, p, ratio, ids, point)
        self.streams[p] = out
        return out

    def follow(self, ids):
        """Logits [T, V] of the main model; then `inputs` is u [T, d], `rows` each stage's KV rows [T, hd]."""
        logits, _ = self.forward(ids)
        means = [bf16(self.streams[f'layers.{n}'].mean(1)) for n in self.targets]
        projected = self.linear(np.concatenate(means, -1), self.first + '.main_proj')
        self.inputs = self.norm(projected, self.first + '.main_norm')
        positions = np.arange(len(ids))
        self.rows = [self.kv_rows(self.inputs, f'mtp.{s}.attn', positions) for s in self.stages]
        return logits

    def kv_rows(self, x, p, positions):
        """The KV path of a stage: no norm before wkv, as `x` has its own."""
        rd = self.cfg['qk_rope_head_dim']
        cos, sin = (t[positions] for t in rope_table(self.cfg, int(positions[-1]) + 1, False))
        kv = self.norm(self.linear(x, p + '.wkv'), p + '.kv_norm')
        kv[:, -rd:] = rope(kv[:, -rd:], cos, sin)
        if self.quant: kv[:, :-rd] = bf16(fp8_sim(kv[:, :-rd], 64))
        return kv

    def new_rings(self):
        return [Ring(self.cfg['sliding_window'], self.cfg['head_dim']) for _ in self.stages]

    def prefill(self, num_tokens):
        rings = self.new_rings()
        for ring, rows in zip(rings, self.rows): ring.prefill(rows[:num_tokens])
        return rings

    # -- a block of drafts
    def attention(self, x, p, ratio, point):
        """Of a stage: every row sees the ring and all rows of the block, whatever their order."""
        if not p.startswith('mtp.'): return super().attention(x, p, ratio, point)
        window, positions = self.drafting[p], self.positions
        c = self.cfg; B = x.shape[0]
        H, hd, rd = c['num_attention_heads'], c['head_dim'], c['qk_rope_head_dim']
        cos, sin = (t[positions][:, None] for t in rope_table(c, int(positions[-1]) + 1, False))
        qr = self.norm(self.linear(x, p + '.wq_a'), p + '.q_norm')
        q = self.linear(qr, p + '.wq_b').reshape(B, H, hd)
        q = bf16(q * bf16(1 / np.sqrt(bf16(bf16(bf16(q * q).mean(-1, keepdims=True)) + self.eps))))
        q[..., -rd:] = rope(q[..., -rd:], cos, sin)
        keys = np.concatenate([window, self.kv_rows(x, p, positions)])
        scores = np.einsum('bhd,kd->bhk', q, keys) * F32(hd ** -0.5)
        most = scores.max(-1, keepdims=True); weights = np.exp(scores - most)
        total = weights.sum(-1, keepdims=True) + np.exp(self.w(p + '.attn_sink')[None, :, None] - most)
        o = bf16(np.einsum('bhk,kd->bhd', bf16(weights), keys) / total)
        o[..., -rd:] = rope(o[..., -rd:], cos, sin, inverse=True)
        g, R = c['o_groups'], c['o_lora_rank']
        wo_a = bf16(self.w(p + '.wo_a.weight')).reshape(g, R, -1)
        o = bf16(np.einsum('bgd,grd->bgr', o.reshape(B, g, -1), wo_a, optimize=True)).reshape(B, g * R)
        return self.linear(o, p + '.wo_b')

    def draft(self, rings, position, fed, embeddings=None):
        """`fed`: y_0, then as many of the drafts as are given; others are the likeliest ones. `position`: the
        last one that the rings have. `embeddings` [B, d]: other rows than those of y_0 and noise."""
        c, B = self.cfg, self.block_size
        self.positions = position + 1 + np.arange(B)
        self.drafting = {f'mtp.{s}.attn': ring.written(position) for s, ring in zip(self.stages, rings)}
        ids = np.array([fed[0]] + [c['dspark_noise_token_id']] * (B - 1))
        if embeddings is None: embeddings = self.w('embed.weight')[ids]
        h = np.repeat(embeddings[:, None], c['hc_mult'], 1)
        for s in self.stages: h = self.block(h, f'mtp.{s}', 0, ids, f'stage.{s}')
        x = self.hc_head(h, self.last + '.hc_head')
        logits = self.norm(x, self.last + '.norm').astype(F32) @ self.w('head.weight').T
        w1, w2 = (self.w(f'{self.last}.markov_head.markov_w{i}.weight') for i in (1, 2))
        proj = self.w(self.last + '.confidence_head.proj.weight')[0]
        fed, confidence = list(fed), np.zeros(B, F32)
        for i in range(B):
            markov = w1[fed[i]]
            logits[i] += w2 @ markov
            confidence[i] = np.concatenate([x[i], markov]).astype(F32) @ proj
            if len(fed) == i + 1 < B: fed.append(int(logits[i].argmax()))
        return Block(logits, confidence, fed)
