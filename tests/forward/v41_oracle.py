"""The forward pass of DeepSeek-V4.1's text model in NumPy (source: releases 2.4 to 2.7, 9.C).

Slow and plain; what is V4's is taken from `oracle`, which must be on the path. A model is a config (the fields of
"text_config"), arrays by tensor name, dequantised, and the compressed id of every token:

    model = V41Model(config, arrays, compressed, 'exact')
    logits = model.step(State(), ids)          # of a whole sequence
    state = State()                            # or in pieces, which keep what the next one needs
    logits = [model.step(state, piece) for piece in pieces]

A checkpoint in the released layout, with the tokenizer by which n-grams are hashed, is such a model too:

    model = open_model(folder, 'released')
"""
import dataclasses, json, os, re, unicodedata
import numpy as np
import oracle
from oracle import F32, bf16, e2m1, e4m3, fp4_sim, fp8_sim, rope, rope_table, sigmoid, softplus

GROUP = 32                # activations in front of FP8 and FP4 matrices, window rows, index keys
ENTRY_GROUP = 16


def entry_sim(x):
    """FP4 with an E4M3 scale of every 16 values."""
    groups = x.reshape(*x.shape[:-1], x.shape[-1] // ENTRY_GROUP, ENTRY_GROUP).astype(F32)
    amax = np.maximum(np.abs(groups).max(-1, keepdims=True), F32(6 * 2.0 ** -9))
    scale = e4m3((amax / F32(6)).astype(F32))
    return (e2m1(groups / scale) * scale).reshape(x.shape).astype(F32)


def primes_from(start):
    number = start
    while True:
        if number > 1 and all(number % d for d in range(2, int(number ** 0.5) + 1)): yield number
        number += 1


class EngramHashes:
    """Rows of each table that the last of `ids` reads."""
    def __init__(self, config, compressed):
        c = self.config = config
        self.compressed, self.pad = np.asarray(compressed, np.int64), compressed[c['engram_pad_token_id']]
        bound = (np.iinfo(np.int64).max // c['engram_compressed_vocab_size']) // 2
        primes = primes_from(c['engram_vocab_size'])
        self.tables = {}
        for layer in c['engram_layer_ids']:
            random = np.random.default_rng(10007 * layer)
            multipliers = random.integers(0, bound, size=c['engram_max_ngram_size'], dtype=np.int64) * 2 + 1
            own = [next(primes) for _ in range((c['engram_max_ngram_size'] - 1) * c['engram_n_heads'])]
            self.tables[layer] = multipliers, np.array(own), np.cumsum([0, *own[:-1]])

    def rows(self, layer, ids):
        multipliers, primes, offsets = self.tables[layer]
        size, heads = self.config['engram_max_ngram_size'], self.config['engram_n_heads']
        rows, value = [], np.int64(0)
        for back in range(size):
            c = self.compressed[ids[-1 - back]] if back < len(ids) else self.pad
            value ^= c * multipliers[back]
            if back: rows += [value % primes[h] + offsets[h] for h in range((back - 1) * heads, back * heads)]
        return np.array(rows)


def compressed_ids(tokenizer_json):
    """Of each token the id of its text without accents, case and kinds of space (source: releases 2.7, 9.C)."""
    with open(tokenizer_json) as f: tokenizer = json.load(f)
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    character = {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(others)}
    byte = {c: b for b, c in character.items()}
    texts = {added['id']: added['content'].encode() for added in tokenizer['added_tokens']}
    for form, token in tokenizer['model']['vocab'].items():
        if token not in texts: texts[token] = bytes(byte[c] for c in form)

    def key(raw):
        try: text = raw.decode()
        except UnicodeDecodeError: text = '\ufffd'
        if '\ufffd' in text: return ''.join(character[b] for b in raw)
        folded = unicodedata.normalize('NFD', unicodedata.normalize('NFKC', text))
        folded = ''.join(c for c in folded if unicodedata.category(c) != 'Mn').lower()
        folded = re.sub('[ \t\r\n]+', ' ', folded)
        return folded if folded == ' ' else folded.strip() or text

    ids = {}
    return [ids.setdefault(key(texts[token]), len(ids)) for token in range(len(texts))]


class V41Checkpoint(oracle.Checkpoint):
    """FP8 with a scale for 32 x 32 weights, and rows of tables with one for 32 columns."""
    def get(self, k):
        if self.kind(k) != 'F8_E4M3': return super().get(k)
        codes = self.raw(k)[1]
        scales = np.ldexp(F32(1), self.raw(k.replace('.weight', '.scale'))[1].astype(np.int32) - 127)
        down = 1 if scales.shape[0] == codes.shape[0] else GROUP
        blocks = np.repeat(np.repeat(scales, down, 0), GROUP, 1)[:codes.shape[0], :codes.shape[1]]
        return (oracle.E4M3_LUT[codes] * blocks).astype(F32)


class Arrays:
    """In place of `oracle.Checkpoint`: `quantised` says which matrices FP8 activations stand before."""
    def __init__(self, arrays, quantised): self.arrays, self.quantised = arrays, quantised
    def __contains__(self, name): return name in self.arrays
    def get(self, name): return self.arrays[name]
    def kind(self, name): return 'F8_E4M3' if name in self.quantised else 'BF16'


@dataclasses.dataclass
class State:
    """What a sequence keeps: its length, its last ids, rows by layer, and a pending token of ratio 2."""
    position: int = 0
    ids: list = dataclasses.field(default_factory=list)
    window: dict = dataclasses.field(default_factory=dict)
    entries: dict = dataclasses.field(default_factory=dict)
    keys: dict = dataclasses.field(default_factory=dict)
    pending: dict = dataclasses.field(default_factory=dict)


def appended(rows, key, new):
    rows[key] = np.concatenate([rows[key], new]) if key in rows else new
    return rows[key]


class V41Model(oracle.Model):
    def __init__(self, config, arrays, compressed, precision='exact', quantised=()):
        oracle.EXACT = precision == 'exact'
        self.cfg, self.quant = config, precision == 'released'
        self.ck = arrays if isinstance(arrays, oracle.Checkpoint) else Arrays(arrays, set(quantised))
        self.eps, self.kept, self.keep, self.cache = F32(config['rms_norm_eps']), {}, None, {}
        self.window_begin, self.has_entries = 0, False   # of a prompt's decoder half
        self.hashes = EngramHashes(config, compressed) if config['engram_layer_ids'] else None

    def linear(self, x, name):
        if self.ck.kind(name + '.weight') != 'BF16' and self.quant: x = fp8_sim(x, GROUP)
        return bf16(x.astype(F32) @ self.w(name + '.weight').T)

    def norm(self, x, name):
        """The mean square in float64 stands for sums whose order is free; 1e-20 adds nothing to what is no zero."""
        r = 1 / np.sqrt(np.mean(np.square(x.astype(np.float64)), -1, keepdims=True) + np.float64(self.eps))
        return bf16(self.w(name + '.weight') * (x * r).astype(F32))

    # -- lagged mHC
    def mixes(self, x, p):
        """(pre, post, comb) of the streams x [T, hc, d]; the collapse is by another's pre."""
        hc, eps = self.cfg['hc_mult'], F32(self.cfg['hc_eps'])
        _, post, comb = self.hc_pre(x, p)
        pre = sigmoid(self.hc_mixes(x, p)[:, :hc] * self.w(p + '_scale')[0] + self.w(p + '_base')[:hc]) + eps
        return pre.astype(F32), post, comb

    @staticmethod
    def collapse(x, pre): return bf16((pre[:, :, None] * x).sum(1))

    def first_pre(self, num):
        pre = np.zeros((num, self.cfg['hc_mult']), F32)
        pre[:, 0] = 1
        return pre

    # -- Engram
    def engram(self, x, layer, ids_before, ids):
        """Streams x [T, hc, d] with what the layer's table says of the n-grams that end at each position."""
        p, hc, d = f'layers.{layer}.engram', self.cfg['hc_mult'], self.cfg['hidden_size']
        history = list(ids_before) + list(ids)
        table = self.w(p + '.embed.weight')
        ends = range(len(ids_before) + 1, len(history) + 1)
        z = bf16(np.stack([table[self.hashes.rows(layer, history[:end])].reshape(-1) for end in ends]))
        out = self.linear(z, p + '.wkv').reshape(len(ids), hc + 1, d)
        keys, value = out[:, :hc], out[:, hc]
        def rsqrt(v): return 1 / np.sqrt(np.mean(np.square(v.astype(np.float64)), -1) + np.float64(self.eps))
        dot = (x * self.w(p + '.q_weight') * self.w(p + '.k_weight') * keys).sum(-1)
        a = (dot * rsqrt(x) * rsqrt(keys) * d ** -0.5).astype(F32)
        return bf16(x + self.engram_gate(a)[:, :, None] * value[:, None])

    @staticmethod
    def engram_gate(a):
        """By the sign of a zero too."""
        return sigmoid(np.copysign(np.sqrt(np.maximum(np.abs(a), F32(1e-6))), a)).astype(F32)

    # -- CSA2
    def make_entries(self, x, layer, state):
        """Entries and index keys of the latents that x [T, d] completes."""
        c, p = self.cfg, f'layers.{layer}.attn'
        ratio, rd = c['compress_ratios'][layer], c['qk_rope_head_dim']
        projected = x @ self.w(p + '.compressor.wkv.weight').T
        if ratio == 2:
            rows = np.stack([projected, x @ self.w(p + '.compressor.wgate.weight').T], 1)
            if layer in state.pending: rows = np.concatenate([state.pending[layer], rows])
            num = len(rows) // 2
            state.pending[layer] = rows[2 * num:]
            pairs = rows[:2 * num].reshape(num, 2, 2, rows.shape[-1])
            gate = np.exp(pairs[:, :, 1] - pairs[:, :, 1].max(1, keepdims=True))
            projected = (pairs[:, :, 0] * (gate / gate.sum(1, keepdims=True))).sum(1)
        latent = self.norm(bf16(projected), p + '.compressor.norm')
        first = len(state.entries[layer]) if layer in state.entries else 0
        positions = (first + np.arange(len(latent))) * ratio
        cos, sin = (t[positions] for t in rope_table(c, positions[-1] + 1 if len(positions) else 1, True))
        key = self.norm(bf16(latent @ self.w(p + '.indexer.wk.weight').T), p + '.indexer.k_norm')
        key[:, -rd:] = rope(key[:, -rd:], cos, sin)
        entry = latent.copy()
        entry[:, -rd:] = rope(entry[:, -rd:], cos, sin)
        if self.quant: key, entry = bf16(fp4_sim(key, GROUP)), bf16(entry_sim(entry))
        appended(state.entries, layer, entry)
        appended(state.keys, layer, key)

    def index_scores(self, x, qr, layer, keys, cos, sin):
        c, p = self.cfg, f'layers.{layer}.attn.indexer'
        heads, width, rd = c['index_n_heads'], c['index_head_dim'], c['qk_rope_head_dim']
        q = self.linear(qr, p + '.wq_b').reshape(len(x), heads, width)
        q[..., -rd:] = rope(q[..., -rd:], cos[:, None], sin[:, None])
        if self.quant: q = bf16(fp4_sim(q, GROUP))
        weight = bf16(bf16(x @ self.w(p + '.weights_proj.weight').T) * F32(width ** -0.5 * heads ** -0.5))
        scores = np.maximum(np.einsum('thd,nd->thn', q, keys, optimize=True), 0)
        return (scores * weight[:, :, None]).sum(1).astype(F32)

    def candidates_of(self, scores, num):
        """Entries below `num` in the best blocks, that with the newest entry among them."""
        size, kept = self.cfg['candidate_block_size'], self.cfg['candidate_topk_blocks']
        blocks = -(-num // size)
        best = np.array([scores[b * size:min((b + 1) * size, num)].max() for b in range(blocks)], F32)
        if blocks: best[-1] = np.inf
        chosen = np.argsort(-best, kind='stable')[:kept]
        return np.isin(np.arange(num) // size, chosen)

    def select(self, x, qr, layer, state, found):
        """Entries that each query attends to, in the order of positions."""
        c = self.cfg
        ratio, source = c['compress_ratios'][layer], c['candidate_source_layer_id']
        end = state.position + len(x)
        cos, sin = (t[state.position:end] for t in rope_table(c, end, True))
        scores = self.index_scores(x, qr, layer, found['keys'], cos, sin)
        if layer == source: found['candidates'] = []
        top = []
        for row, score in enumerate(scores):
            num = (state.position + row + 1) // ratio
            if layer == source: found['candidates'].append(self.candidates_of(score, num))
            score = score[:num]
            if layer > source: score = np.where(found['candidates'][row], score, -np.inf)
            best = np.argsort(-score, kind='stable')[:c['index_topk']]
            top.append(np.sort(best[score[best] > -np.inf]))
        found['top'] = top

    def attention(self, x, layer, state, found):
        c, p = self.cfg, (f'layers.{layer}.attn')
        num, heads, width, rd = len(x), c['num_attention_heads'], c['head_dim'], c['qk_rope_head_dim']
        ratio, begin = c['compress_ratios'][layer], state.position
        cos, sin = (t[begin:] for t in rope_table(c, begin + num, bool(ratio)))
        qr = self.norm(self.linear(x, p + '.wq_a'), p + '.q_norm')
        q = self.linear(qr, p + '.wq_b').reshape(num, heads, width)
        q[..., -rd:] = rope(q[..., -rd:], cos[:, None], sin[:, None])
        kv = self.norm(self.linear(x, p + '.wkv'), p + '.kv_norm')
        kv[:, -rd:] = rope(kv[:, -rd:], cos, sin)
        if self.quant: kv = bf16(fp8_sim(kv, GROUP))
        window = appended(state.window, layer, kv)
        if layer in c['kv_source_layer_ids']:
            if not self.has_entries: self.make_entries(x, layer, state)
            found['keys'], found['entries'] = state.keys[layer], state.entries[layer]
        if layer in c['index_source_layer_ids']: self.select(x, qr, layer, state, found)
        sink, scale = self.w(p + '.attn_sink'), F32(width ** -0.5)
        out = np.empty((num, heads, width), F32)
        for row in range(num):
            at = begin + row
            keys = window[max(self.window_begin, at - c['sliding_window'] + 1):at + 1]
            if ratio: keys = np.concatenate([keys, found['entries'][found['top'][row]]])
            score = (q[row] @ keys.T) * scale
            most = score.max(-1, keepdims=True)
            e = np.exp(score - most)
            out[row] = bf16((bf16(e) @ keys) / (e.sum(-1, keepdims=True) + np.exp(sink[:, None] - most)))
        out[..., -rd:] = rope(out[..., -rd:], cos[:, None], sin[:, None], inverse=True)
        groups, rank = c['o_groups'], c['o_lora_rank']
        wo_a = bf16(self.w(p + '.wo_a.weight')).reshape(groups, rank, -1)
        out = bf16(np.einsum('tgd,grd->tgr', out.reshape(num, groups, -1), wo_a, optimize=True))
        return self.linear(out.reshape(num, -1), p + '.wo_b')

    # -- MoE
    def route(self, x, p, ids):
        score = np.sqrt(softplus(x @ self.w(p + '.gate.weight').T)).astype(F32)
        chosen = np.argsort(-(score + self.w(p + '.gate.bias')), -1, kind='stable')
        chosen = chosen[:, :self.cfg['num_experts_per_tok']]
        weight = np.take_along_axis(score, chosen, -1)
        weight = weight / (weight.sum(-1, keepdims=True) + F32(1e-20))
        return (weight * F32(self.cfg['routed_scaling_factor'])).astype(F32), chosen

    # -- the model
    def layers(self, layers, x, pre, found, state, ids, engram_in_first=True):
        """Streams behind these layers, and what collapses them."""
        for layer in layers:
            p = f'layers.{layer}'
            if layer in self.cfg['engram_layer_ids'] and (engram_in_first or layer != layers[0]):
                x = self.engram(x, layer, state.ids, ids)
            next_pre, post, comb = self.mixes(x, p + '.hc_attn')
            u = self.norm(self.collapse(x, pre), p + '.attn_norm')
            x, pre = self.hc_post(self.attention(u, layer, state, found), x, post, comb), next_pre
            next_pre, post, comb = self.mixes(x, p + '.hc_ffn')
            u = self.norm(self.collapse(x, pre), p + '.ffn_norm')
            x, pre = self.hc_post(self.moe(u, p + '.ffn', ids, p), x, post, comb), next_pre
        return x, pre

    def embedded(self, ids):
        return np.repeat(self.w('embed.weight')[ids][:, None], self.cfg['hc_mult'], 1), self.first_pre(len(ids))

    def logits(self, x, pre, state, ids, found):
        state.position += len(ids)
        state.ids = (state.ids + ids)[1 - self.cfg['engram_max_ngram_size']:]
        self.last_found = found
        return (self.norm(self.collapse(x, pre), 'norm') @ self.w('head.weight').T).astype(F32)

    def step(self, state, ids):
        """Logits [T, V] of `ids`, which follow what `state` has seen."""
        ids, found = list(ids), {}
        x, pre = self.layers(range(self.cfg['num_hidden_layers']), *self.embedded(ids), found, state, ids)
        return self.logits(x, pre, state, ids, found)

    def bounded_prompt(self, state, ids, replay):
        """Logits of the last `replay` of `ids`, with which `state` begins: the others go through the encoder half alone,
        and layers of the decoder half, which begins with the last that makes entries, see their rows' windows alone."""
        ids, found = list(ids), {}
        half, num, begin = self.cfg['kv_source_layer_ids'][-1], self.cfg['num_hidden_layers'], max(0, len(ids) - replay)
        x, pre = self.layers(range(half), *self.embedded(ids), found, state, ids)
        if half in self.cfg['engram_layer_ids']: x = self.engram(x, half, state.ids, ids)
        self.make_entries(self.norm(self.collapse(x, pre), f'layers.{half}.attn_norm'), half, state)
        nothing = np.full((begin, self.cfg['head_dim']), np.nan, F32)
        rest = State(begin, [], {layer: nothing for layer in range(half, num)}, state.entries, state.keys, state.pending)
        self.window_begin, self.has_entries = begin, True
        x, pre = self.layers(range(half, num), x[begin:], pre[begin:], found, rest, ids[begin:], engram_in_first=False)
        self.window_begin, self.has_entries = 0, False
        state.window |= rest.window
        return self.logits(x, pre, state, ids, found)


def open_model(folder, precision='exact', kind=V41Model):
    with open(os.path.join(folder, 'config.json')) as f: config = json.load(f)['text_config']
    return kind(config, V41Checkpoint(folder), compressed_ids(os.path.join(folder, 'tokenizer.json')), precision)
