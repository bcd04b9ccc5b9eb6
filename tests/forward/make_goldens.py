#!/usr/bin/python3
"""Writes goldens/ with the NumPy forward pass that the project is checked against:

    NPY_DISABLE_CPU_FEATURES="AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL" \\
        tests/forward/make_goldens.py ../shared/oracle build/release/src/app/baleen ../shared/data/stories/valid.jsonl.zst

(without that variable NumPy's float32 powers, hence rotation angles, are off by a unit in the last place on AVX-512
machines). Run in the repository root.

PRESET.safetensors   logits in `exact` of a random checkpoint that `baleen init --preset PRESET --seed SEED` writes again
                     wherever the test runs: in full at a few positions, projected on eight directions at all of them
PRESET-f32-scales.safetensors   the same with FP8 experts and F32 scales that are no powers of two (`OddScales`)
tiny-v41.safetensors   the same of DeepSeek-V4.1 (v41_oracle.py) with an embedding divided by 4096; of short prompts
                     also in `released`
tiny-v41-bounded.safetensors   the same weights behind a prompt whose decoder half is computed on its last tokens alone
PRESET-nvfp4.safetensors   the same with the layers' experts in NVFP4, scales no powers of two (`OddNvfp4`), and MXFP4 in the MTP block
stories_nll.json     ids of 20 held-out stories and the sums of their negative log-likelihoods in `released`
operations.safetensors   inputs and outputs of single operations of models/stories in `released`, layer by kind
"""
import json, os, subprocess, sys, tempfile
import numpy as np

if len(sys.argv) != 4: sys.exit(__doc__)
ORACLE, BALEEN, STORIES = sys.argv[1:]
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [ORACLE, HERE, os.path.join(HERE, '..', 'support')]
import golden_arrays, oracle, v41_oracle
from golden_arrays import OddNvfp4, OddScales, checksum

OUT = os.path.join(HERE, 'goldens')
MODEL = 'models/stories'
F32 = np.float32

def save(name, tensors): golden_arrays.save(os.path.join(OUT, name), tensors)

# First and last, and around every boundary: blocks of 4, the window, blocks of 128, pages.
POSITIONS = np.array([0, 2, 3, 7, 63, 127, 128, 131, 255, 256, 383, 418])

def described(ids, arrays, positions=POSITIONS):
    """Rows [T, V] in full at some positions, by norm and projections at all of them."""
    width = next(iter(arrays.values())).shape[1]
    directions = np.linalg.qr(np.random.default_rng(5).standard_normal((width, 8)))[0].T.astype(F32)
    tensors = {'tokens': ids, 'positions': positions, 'directions': directions}
    for name, x in arrays.items():
        x64 = x.astype(np.float64)
        tensors |= {name: x[positions], name + '.norm': np.linalg.norm(x64, axis=1).astype(F32),
                    name + '.projection': (x64 @ directions.T.astype(np.float64)).astype(F32)}
    return tensors

# ------------------------------------------------------------------ logits of random checkpoints
def logits_golden(preset, seed, form=''):
    with tempfile.TemporaryDirectory() as parent:
        folder = os.path.join(parent, 'model')
        subprocess.run([BALEEN, 'init', folder, '--preset', preset, '--seed', str(seed)], check=True, stdout=subprocess.DEVNULL)
        m = oracle.Model(folder, 'exact')
        if form == 'f32-scales':   # the conversion of experts to FP8 is exact, and tests compare its logits with those of FP4
            fp8 = os.path.join(parent, 'fp8')
            subprocess.run([BALEEN, 'convert', folder, fp8, '--experts', 'fp8'], check=True, stdout=subprocess.DEVNULL)
            m.ck = OddScales(fp8)
        if form == 'nvfp4': m.ck = OddNvfp4(folder)
        ids = np.random.default_rng(4).integers(0, m.cfg['vocab_size'], 420)
        logits, streams = m.forward(ids)
        tensors = {'seed': np.array([seed]), 'checksum': np.array([checksum(folder)])}
        tensors |= described(ids, {'logits': logits, 'mtp_logits': m.mtp(streams, ids)})
        save('-'.join(filter(None, (preset, form))) + '.safetensors', tensors)

def v41_golden(seed):
    """Streams that enter are as small as 2^-12: an epsilon of 1e-6 would be most of their mean square."""
    with tempfile.TemporaryDirectory() as parent:
        folder = os.path.join(parent, 'model')
        subprocess.run([BALEEN, 'init', folder, '--preset', 'tiny-v41', '--seed', str(seed), '--tokenizer', MODEL], check=True,
                       stdout=subprocess.DEVNULL)
        def open_model(precision):
            m = v41_oracle.open_model(folder, precision)
            m.cache['embed.weight'] = (m.w('embed.weight') * F32(2.0 ** -12)).astype(F32)
            return m
        m = open_model('exact')
        ids = np.random.default_rng(4).integers(0, m.cfg['vocab_size'], 419)   # ends with a pending token
        tensors = {'seed': np.array([seed]), 'checksum': np.array([checksum(folder)])}
        tensors |= described(ids, {'logits': m.step(v41_oracle.State(), ids)}, np.array([0, 1, 128, 257, 418]))
        # In `released` a sum in another order may round another value, and all that follows is then off: prompts so short
        # that many agree beyond that.
        m, begins, length = open_model('released'), np.arange(0, 400, 10), 3
        rows = np.concatenate([m.step(v41_oracle.State(), ids[b:b + length]) for b in begins]).astype(np.float64)
        save('tiny-v41.safetensors', tensors | {
            'short_begins': begins, 'short_length': np.array([length]),
            'released.norm': np.linalg.norm(rows, axis=1).astype(F32),
            'released.projection': (rows @ tensors['directions'].T.astype(np.float64)).astype(F32)})

def v41_bounded_golden(seed, prompt=300, replay=128):
    """Logits of a prompt's last tokens, which alone went through the decoder half, and of tokens behind it."""
    with tempfile.TemporaryDirectory() as parent:
        folder = os.path.join(parent, 'model')
        subprocess.run([BALEEN, 'init', folder, '--preset', 'tiny-v41', '--seed', str(seed), '--tokenizer', MODEL], check=True,
                       stdout=subprocess.DEVNULL)
        m, state = v41_oracle.open_model(folder, 'exact'), v41_oracle.State()
        ids = np.random.default_rng(6).integers(0, m.cfg['vocab_size'], prompt + 140)
        rows = [m.bounded_prompt(state, ids[:prompt], replay), m.step(state, ids[prompt:])]
        save('tiny-v41-bounded.safetensors', described(ids, {'logits': np.concatenate(rows)}, np.array([0, replay - 1, replay]))
             | {'seed': np.array([seed]), 'prompt_tokens': np.array([prompt]), 'replay': np.array([replay])})

# ------------------------------------------------------------------ held-out stories
def story_ids():
    rows = subprocess.run(['zstd', '-dc', STORIES], capture_output=True, check=True).stdout.splitlines()[300:320]
    text = ''.join(json.dumps({'text': '<｜begin▁of▁sentence｜>' + json.loads(row)['text'] + '<｜end▁of▁sentence｜>'}) + '\n'
                   for row in rows)
    answers = subprocess.run([BALEEN, 'tokenize', '--model', MODEL], input=text, capture_output=True, text=True, check=True)
    return [json.loads(line)['ids'] for line in answers.stdout.splitlines()]

def nll(model, ids):
    x = model.forward(ids)[0].astype(np.float64)
    return float(sum(np.logaddexp.reduce(x[t]) - x[t, ids[t + 1]] for t in range(len(ids) - 1)))

def stories_golden(stories):
    model = oracle.Model(MODEL, 'released')
    rows = [{'nll': nll(model, ids), 'ids': ids} for ids in stories]
    with open(os.path.join(OUT, 'stories_nll.json'), 'w') as f:
        f.write('[\n' + ',\n'.join(json.dumps(row, separators=(',', ':')) for row in rows) + '\n]\n')
    print('stories_nll.json:', sum(r['nll'] for r in rows) / sum(len(r['ids']) - 1 for r in rows), 'nats a token', flush=True)

# ------------------------------------------------------------------ single operations
class Recorder(oracle.Model):
    """Keeps what goes into and comes out of every operation, under the name of its weights."""
    def forward(self, ids):
        self.seen, self.keep = {}, 'all'
        return super().forward(ids)
    def note(self, point, x): super().note(point, np.array(x))   # a copy: what is noted may change in place
    def see(self, name, **arrays):
        for key, value in arrays.items(): self.seen.setdefault(f'{name}.{key}', np.array(value))
    def linear(self, x, name):
        x = np.array(x); y = super().linear(x, name); self.see(name, x=x, y=y); return y
    def norm(self, x, name):
        y = super().norm(x, name); self.see(name, x=x, y=y); return y
    def hc_pre(self, x, p):
        u, post, comb = super().hc_pre(x, p); self.see(p, x=x, u=u, post=post, comb=comb); self.site = p
        return u, post, comb
    def hc_post(self, y, res, post, comb):
        out = super().hc_post(y, res, post, comb); self.see(self.site, f=y, out=out); return out
    def hc_head(self, x, p):
        y = super().hc_head(x, p); self.see(p, x=x, y=y); return y
    def index(self, x, qr, p, cos, sin):
        scores, top, keys = super().index(x, qr, p, cos, sin); self.see(p, scores=scores, keys=keys)
        self.top = top
        return scores, top, keys
    def moe(self, x, p, ids, point):
        y = super().moe(x, p, ids, point); self.see(p, x=x, y=y); return y

def operations_golden(ids):
    ids = np.array(ids); num = len(ids); last = slice(num - 8, num)
    window = slice(num - 8 - 127, num)                # what the last eight queries see
    m = Recorder(MODEL, 'released')
    logits, streams = m.forward(ids)
    s, k, out = m.seen, m.kept, {'tokens': ids}
    def put(name, value): out[name] = value
    for name in ('layers.1.hc_attn.x', 'layers.1.hc_attn.u', 'layers.1.hc_attn.post', 'layers.1.hc_attn.comb',
                 'layers.1.hc_attn.f', 'layers.1.hc_attn.out', 'layers.1.attn_norm.x', 'layers.1.attn_norm.y',
                 'layers.1.attn.wq_a.y', 'layers.1.attn.wq_b.x', 'layers.1.attn.wq_b.y', 'layers.1.attn.wo_b.x',
                 'layers.1.attn.wo_b.y', 'layers.1.attn.indexer.wq_b.y', 'layers.1.attn.indexer.weights_proj.y',
                 'layers.1.attn.indexer.scores', 'layers.0.ffn.x', 'layers.1.ffn.x', 'layers.1.ffn.y',
                 'hc_head.x', 'hc_head.y', 'norm.y'):
        key = name
        if name.endswith('weights_proj.y'):           # the oracle scales it on the way and keeps no product
            x = s['layers.1.attn.wq_a.x'] @ m.w('layers.1.attn.indexer.weights_proj.weight').T
            put(name, oracle.bf16(x)[last]); continue
        put(name, s[key][last])
    for layer in (0, 1, 2):
        put(f'layers.{layer}.attn.wkv.y', s[f'layers.{layer}.attn.wkv.y'][window])
        put(f'layers.{layer}.attn.kv', k[f'layer.{layer}.kv'][window])
        put(f'layers.{layer}.attn.q', k[f'layer.{layer}.q'][last])
        put(f'layers.{layer}.attn.core', k[f'layer.{layer}.core'][last])
    for layer in (1, 2):
        put(f'layers.{layer}.attn.x', s[f'layers.{layer}.attn.wq_a.x'])
        put(f'layers.{layer}.attn.compressed_kv', k[f'layer.{layer}.compressed_kv'])
    put('layers.1.attn.indexer.keys', s['layers.1.attn.indexer.keys'])
    # The recorder's last selection is that of the last ratio-4 layer; this layer's comes from its scores.
    scores, top_k = s['layers.1.attn.indexer.scores'][last], m.cfg['index_topk']
    put('layers.1.attn.indexer.selected', np.array([np.sort(np.argsort(-row, kind='stable')[:top_k]) for row in scores]))
    for layer in (0, 1):
        put(f'layers.{layer}.ffn.ids', k[f'layer.{layer}.expert_ids'][last])
        put(f'layers.{layer}.ffn.weights', k[f'layer.{layer}.expert_weights'][last])
    for name in ('w1', 'w2'):
        expert = f'layers.1.ffn.experts.{int(k["layer.1.expert_ids"][-1][0])}.{name}'
        put(f'expert.{name}.x', s[expert + '.x'][:8]); put(f'expert.{name}.y', s[expert + '.y'][:8])
    put('expert.id', np.array([k['layer.1.expert_ids'][-1][0]]))
    put('logits', logits[-2:])
    m.mtp(streams, ids)
    put('mtp.0.e_proj.y', s['mtp.0.e_proj.y'][-4:]); put('mtp.0.h_proj.y', s['mtp.0.h_proj.y'][-4:])
    put('mtp.0.hc_attn.x', s['mtp.0.hc_attn.x'][-4:])
    save('operations.safetensors', out)

os.makedirs(OUT, exist_ok=True)
logits_golden('tiny-flash', 1)
logits_golden('tiny-real-heads', 2)
logits_golden('tiny-flash', 3, 'f32-scales')
logits_golden('tiny-flash', 4, 'nvfp4')
v41_golden(5)
v41_bounded_golden(5)
stories = story_ids()
operations_golden((stories[0] + stories[1])[:280])
stories_golden(stories)
