"""DSpark of DeepSeek-V4.1 in NumPy (source: releases 2.8, 9.B2).

As V4's (dspark_oracle.py), but: it reads the means of the streams before the attention of its target layers; its stages
are blocks of V4.1, whose hyper-connections collapse by the half-block before; their experts are fewer; the Markov head's
tensors have other names. `v41_oracle` and `oracle` must be on the path:

    model = V41DsparkModel(config, arrays, compressed, 'exact')
    state = State()
    logits = model.step(state, ids)               # in pieces or whole; rows of the stages go into `state` with it
    block = model.draft(state, fed)               # behind what `state` has seen
"""
import contextlib
import numpy as np
from oracle import F32, bf16, fp8_sim, rope, rope_table
from v41_oracle import GROUP, V41Model, appended
from dspark_oracle import Block


class V41DsparkModel(V41Model):
    def __init__(self, config, *args, num_stages=3, **options):
        super().__init__(config, *args, **options)
        self.stages = [f'mtp.{n}' for n in range(num_stages)]
        self.targets, self.means = config['dspark_target_layer_ids'], {}

    # -- the main layers, and what the head keeps of them
    def mixes(self, x, p):
        """What a layer's attention begins with: the streams behind the layer's Engram."""
        for layer in self.targets:
            if p == f'layers.{layer}.hc_attn': self.means[layer] = bf16(x.mean(1))
        return super().mixes(x, p)

    def step(self, state, ids):
        first = state.position
        logits = super().step(state, ids)
        means = np.concatenate([self.means[layer] for layer in self.targets], -1)
        u = self.norm(self.linear(means, 'mtp.0.main_proj'), 'mtp.0.main_norm')
        for stage in self.stages: appended(state.window, stage, self.kv_rows(u, stage, first + np.arange(len(ids))))
        return logits

    def kv_rows(self, x, stage, positions):
        kv = self.norm(self.linear(x, f'{stage}.attn.wkv'), f'{stage}.attn.kv_norm')
        rd = self.cfg['qk_rope_head_dim']
        cos, sin = (t[positions] for t in rope_table(self.cfg, int(positions[-1]) + 1, False))
        kv[:, -rd:] = rope(kv[:, -rd:], cos, sin)
        return bf16(fp8_sim(kv, GROUP)) if self.quant else kv

    # -- a block of drafts
    @contextlib.contextmanager
    def draft_experts(self):
        main = self.cfg
        self.cfg = {**main, 'n_routed_experts': main['dspark_n_routed_experts'],
                    'num_experts_per_tok': main['dspark_num_experts_per_tok']}
        try: yield
        finally: self.cfg = main

    def draft_attention(self, x, stage, window, positions):
        """Every row sees the window before the block and all rows of the block, whatever their order."""
        c, p = self.cfg, f'{stage}.attn'
        num, heads, width, rd = len(x), c['num_attention_heads'], c['head_dim'], c['qk_rope_head_dim']
        cos, sin = (t[positions][:, None] for t in rope_table(c, int(positions[-1]) + 1, False))
        qr = self.norm(self.linear(x, p + '.wq_a'), p + '.q_norm')
        q = self.linear(qr, p + '.wq_b').reshape(num, heads, width)
        q[..., -rd:] = rope(q[..., -rd:], cos, sin)
        keys = np.concatenate([window, self.kv_rows(x, stage, positions)])
        score = np.einsum('thd,kd->thk', q, keys) * F32(width ** -0.5)
        most = score.max(-1, keepdims=True)
        e = np.exp(score - most)
        total = e.sum(-1, keepdims=True) + np.exp(self.w(p + '.attn_sink')[None, :, None] - most)
        out = bf16(np.einsum('thk,kd->thd', bf16(e), keys) / total)
        out[..., -rd:] = rope(out[..., -rd:], cos, sin, inverse=True)
        groups, rank = c['o_groups'], c['o_lora_rank']
        wo_a = bf16(self.w(p + '.wo_a.weight')).reshape(groups, rank, -1)
        out = bf16(np.einsum('tgd,grd->tgr', out.reshape(num, groups, -1), wo_a, optimize=True))
        return self.linear(out.reshape(num, -1), p + '.wo_b')

    def draft(self, state, fed, embeddings=None):
        """`fed`: y_0, the token behind what `state` has seen, then as many of the drafts as are given; others are the
        likeliest ones. `embeddings` [B, d]: other rows than those of y_0 and noise. Changes nothing of `state`."""
        c, num = self.cfg, self.cfg['dspark_block_size']
        positions = state.position + np.arange(num)
        ids = [fed[0]] + [c['dspark_noise_token_id']] * (num - 1)
        if embeddings is None: embeddings = self.w('embed.weight')[ids]
        x = np.repeat(embeddings[:, None], c['hc_mult'], 1)
        pre = self.first_pre(num)
        for stage in self.stages:
            window = state.window[stage][-c['sliding_window']:]
            next_pre, post, comb = self.mixes(x, stage + '.hc_attn')
            u = self.norm(self.collapse(x, pre), stage + '.attn_norm')
            x, pre = self.hc_post(self.draft_attention(u, stage, window, positions), x, post, comb), next_pre
            next_pre, post, comb = self.mixes(x, stage + '.hc_ffn')
            u = self.norm(self.collapse(x, pre), stage + '.ffn_norm')
            with self.draft_experts(): y = self.moe(u, stage + '.ffn', ids, stage)
            x, pre = self.hc_post(y, x, post, comb), next_pre
        x, last = self.collapse(x, pre), self.stages[-1]
        logits = self.norm(x, last + '.norm').astype(F32) @ self.w('head.weight').T
        embed, head = (self.w(f'{last}.markov_head.{name}.weight') for name in ('embed', 'head'))
        proj = self.w(last + '.confidence_head.proj.weight')[0]
        fed, confidence = list(fed), np.zeros(num, F32)
        for i in range(num):
            markov = embed[fed[i]]
            logits[i] += head @ markov
            confidence[i] = np.concatenate([x[i], markov]).astype(F32) @ proj
            if len(fed) == i + 1 < num: fed.append(int(logits[i].argmax()))
        return Block(logits, confidence, fed)
