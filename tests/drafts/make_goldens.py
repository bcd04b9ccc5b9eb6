#!/usr/bin/python3
"""Writes goldens/ with the NumPy forward pass that the project is checked against, and DSpark's beside it:

    NPY_DISABLE_CPU_FEATURES="AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL" \\
        tests/drafts/make_goldens.py ../shared/oracle build/release/src/app/baleen

Run in the repository root. Checks the DSpark of dspark_oracle.py first: what must hold of any right one.

tiny-dspark.safetensors   logits and confidences in `exact` of blocks behind prompts of several lengths, for
    given tokens and for the likeliest ones, of the checkpoint that `baleen init --preset tiny-dspark --seed
    SEED` writes again wherever the test runs; behind a few tokens also in `released`
tiny-v41.safetensors   the same in `exact` of DeepSeek-V4.1's head (v41_dspark_oracle.py, which has its own test), of
    `baleen init --preset tiny-v41`; logits by norms and projections on eight directions
tiny-dspark-f32-scales.safetensors   the same with F32 scales that are no powers of two (`OddScales`)
"""
import os, subprocess, sys, tempfile
import numpy as np

if len(sys.argv) != 3: sys.exit(__doc__)
ORACLE, BALEEN = sys.argv[1:]
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [ORACLE, HERE, os.path.join(HERE, '..', 'support'), os.path.join(HERE, '..', 'forward')]
import golden_arrays, v41_oracle
from dspark_oracle import DsparkModel
from v41_dspark_oracle import V41DsparkModel

# Few positions, beyond top-k (16 entries of 4 tokens), the ring's wrap, a page of 256, where the ring's first
# row is the last one of a page.
LENGTHS = [1, 2, 5, 126, 127, 128, 129, 200, 254, 257, 383, 384, 512]
# In `released` a sum in another order may round another value to FP8, and all that follows is then off:
# prompts [begin, begin + 3) of the tokens, so short that many agree beyond that.
SHORT_BEGINS, SHORT_LENGTH = range(0, 120, 10), 3
# Between a token that is chosen and the next likeliest: far more than the error of float32.
LEAST_MARGIN = 1e-3

def prompt(model): return np.random.default_rng(4).integers(0, model.cfg['vocab_size'], 517)

def distance(a, b): return float(np.linalg.norm(a - b) / np.linalg.norm(b))

# ------------------------------------------------------------------ what must hold
def check_capture(model, ids):
    """u takes the mean of what comes out of the target layers, so the last one's FFN has a part in it."""
    u = model.inputs
    name = f'layers.{model.targets[-1]}.ffn.shared_experts.w2.weight'
    weight = model.w(name)
    model.cache[name] = weight * 1.5
    model.follow(ids)
    assert distance(model.inputs, u) > 1e-2, 'the last target layer has no part in u'
    model.cache[name] = weight
    model.follow(ids)
    d = model.cfg['hidden_size']
    for i, layer in enumerate(model.targets):
        part = model.w(model.first + '.main_proj.weight')[:, i * d:(i + 1) * d]
        share = np.linalg.norm(model.streams[f'layers.{layer}'].mean(1) @ part.T)
        assert share > 1, f'layer {layer} says nothing'
    sizes = np.linalg.norm(model.streams['layers.0'], axis=-1) / np.sqrt(d)
    assert 0.3 < sizes.min() and sizes.max() < 30, f'streams of {sizes.min()} to {sizes.max()} a channel'

def check_attention(model):
    """A block of one row on a ring that rows before it filled is a layer with a window and nothing else."""
    x = np.random.default_rng(6).standard_normal((200, model.cfg['hidden_size'])).astype(np.float32)
    p = model.first + '.attn'
    want = super(DsparkModel, model).attention(x, p, 0, 'check')
    for position in (4, 127, 199):
        model.positions = np.array([position])
        model.drafting = {p: model.kv_rows(x[:position], p, np.arange(position))[-127:]}
        got = model.attention(x[position:position + 1], p, 0, '')
        assert distance(got, want[position:position + 1]) < 1e-5

def check_block(model, ids):
    """Rows see those behind them; the ring has the last 128 positions and none before."""
    rings = model.prefill(300)
    block = model.draft(rings, 299, ids[300:305])
    noise = model.w('embed.weight')[[ids[300]] + [model.cfg['dspark_noise_token_id']] * 4]
    same = model.draft(rings, 299, ids[300:305], noise)
    assert (same.logits == block.logits).all()
    noise[4] = model.w('embed.weight')[7]
    other = model.draft(rings, 299, ids[300:305], noise)
    assert distance(other.logits[0], block.logits[0]) > 1e-3, 'row 0 does not see row 4'
    # In order of positions, each of them written down: slots decide nothing.
    in_order = model.new_rings()
    for ring, rows in zip(in_order, model.rows): ring.rows = rows[300 - 128:300]
    assert distance(model.draft(in_order, 299, ids[300:305]).logits, block.logits) < 1e-5
    for seen, position in ((True, 172), (False, 171)):
        rings = model.new_rings()
        for ring, rows in zip(rings, model.rows):
            rows = rows[:300].copy(); rows[position] *= -1; ring.prefill(rows)
        assert (distance(model.draft(rings, 299, ids[300:305]).logits, block.logits) > 1e-4) == seen, position
    # Another token fed changes its own row alone: by the Markov head, and by w1 in the confidence.
    fed = ids[300:305].copy(); fed[2] = (fed[2] + 1) % 500
    markov = model.draft(model.prefill(300), 299, fed)
    for i in range(5):
        assert (distance(markov.logits[i], block.logits[i]) > 1e-3) == (i == 2), i
        assert (abs(markov.confidence[i] - block.confidence[i]) > 1e-3) == (i == 2), i

def check_rings(model, ids):
    """One prefill leaves what a prefill and steps leave: at every length around the wraps."""
    model.follow(ids)
    for begin, end in ((1, 127), (100, 129), (128, 300), (255, 258)):
        whole, steps = model.prefill(end), model.prefill(begin)
        for position in range(begin, end):
            for ring, rows in zip(steps, model.rows): ring.write(position, rows[position])
        for a, b in zip(whole, steps): assert np.array_equal(a.rows, b.rows, equal_nan=True), (begin, end)
    rows = [r[:150] for r in model.rows]
    model.follow(ids[:150])                          # what comes later has no part in a row
    for a, b in zip(rows, model.rows): assert distance(a, b) < 1e-5
    model.follow(ids)

# ------------------------------------------------------------------ goldens
def released(folder):
    model, blocks = DsparkModel(folder, 'released'), []
    ids = prompt(model)
    for begin in SHORT_BEGINS:
        short = ids[begin:begin + SHORT_LENGTH]
        model.follow(short)
        fed = ids[begin + SHORT_LENGTH:begin + SHORT_LENGTH + 5]
        blocks.append(model.draft(model.prefill(SHORT_LENGTH), SHORT_LENGTH - 1, fed).logits)
    return {'short_begins': np.array(SHORT_BEGINS), 'short_length': np.array([SHORT_LENGTH]),
            'released_draft_logits': np.stack(blocks)}

def golden(name, seed, f32_scales):
    with tempfile.TemporaryDirectory() as parent:
        folder = os.path.join(parent, 'model')
        subprocess.run([BALEEN, 'init', folder, '--preset', 'tiny-dspark', '--seed', str(seed)], check=True,
                       stdout=subprocess.DEVNULL)
        model = DsparkModel(folder, 'exact')
        if f32_scales: model.ck = golden_arrays.OddScales(folder)
        ids = prompt(model)
        logits = model.follow(ids)
        check_rings(model, ids); check_capture(model, ids); check_attention(model); check_block(model, ids)
        given, likeliest = [], []
        for length in LENGTHS:
            rings = model.prefill(length)
            given.append(model.draft(rings, length - 1, ids[length:length + 5]))
            likeliest.append(model.draft(rings, length - 1, ids[length:length + 1]))
            two = np.sort(likeliest[-1].logits, -1)[:, -2:]
            assert (two[:, 1] - two[:, 0]).min() > LEAST_MARGIN, 'a tie: take another seed'
        golden_arrays.save(os.path.join(HERE, 'goldens', name), {
            'seed': np.array([seed]), 'checksum': np.array([golden_arrays.checksum(folder)]), 'tokens': ids,
            'lengths': np.array(LENGTHS), 'logits': logits[np.array(LENGTHS) - 1],
            'draft_logits': np.stack([block.logits for block in given]),
            'confidence': np.stack([block.confidence for block in given]),
            'likeliest': np.array([b.fed[1:] + [int(b.logits[-1].argmax())] for b in likeliest]),
            'likeliest_confidence': np.stack([block.confidence for block in likeliest]),
            **({} if f32_scales else released(folder))})

def v41_golden(seed):
    with tempfile.TemporaryDirectory() as parent:
        folder = os.path.join(parent, 'model')
        subprocess.run([BALEEN, 'init', folder, '--preset', 'tiny-v41', '--seed', str(seed), '--tokenizer', 'models/stories'],
                       check=True, stdout=subprocess.DEVNULL)
        model, state = v41_oracle.open_model(folder, 'exact', V41DsparkModel), v41_oracle.State()
        ids = prompt(model)
        logits, given, likeliest = [], [], []
        for length in LENGTHS:
            logits.append(model.step(state, ids[state.position:length])[-1])
            given.append(model.draft(state, ids[length:length + 5]))
            likeliest.append(model.draft(state, ids[length:length + 1]))
            two = np.sort(likeliest[-1].logits, -1)[:, -2:]
            assert (two[:, 1] - two[:, 0]).min() > LEAST_MARGIN, 'a tie: take another seed'
        directions = np.linalg.qr(np.random.default_rng(5).standard_normal((model.cfg['vocab_size'], 8)))[0].T
        tensors = {'seed': np.array([seed]), 'checksum': np.array([golden_arrays.checksum(folder)]), 'tokens': ids,
                   'lengths': np.array(LENGTHS), 'directions': directions.astype(np.float32),
                   'confidence': np.stack([block.confidence for block in given]),
                   'likeliest': np.array([b.fed[1:] + [int(b.logits[-1].argmax())] for b in likeliest]),
                   'likeliest_confidence': np.stack([block.confidence for block in likeliest])}
        for name, rows in (('logits', logits), ('draft_logits', [row for block in given for row in block.logits])):
            rows = np.stack(rows).astype(np.float64)
            tensors |= {name + '.norm': np.linalg.norm(rows, axis=1).astype(np.float32),
                        name + '.projection': (rows @ tensors['directions'].T.astype(np.float64)).astype(np.float32)}
        golden_arrays.save(os.path.join(HERE, 'goldens', 'tiny-v41.safetensors'), tensors)

golden('tiny-dspark.safetensors', 3, False)
golden('tiny-dspark-f32-scales.safetensors', 2, True)
v41_golden(6)
