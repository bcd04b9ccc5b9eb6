#!/usr/bin/python3
"""What must hold of any right forward pass of V4.1, of v41_oracle.py on tiny random weights:

    tests/forward/v41_oracle_test.py ../shared/oracle

Ratios 0, 2, 1, 1, 1: entries of layers 1 and 2, selections of 1, 2 and 3, candidates of 2.
"""
import os, sys, unittest
import numpy as np

if len(sys.argv) < 2: sys.exit(__doc__)
sys.path[:0] = [sys.argv.pop(1), os.path.dirname(os.path.abspath(__file__))]
from oracle import F32, bf16, rope, rope_table
from v41_oracle import EngramHashes, State, V41Model, entry_sim

CONFIG = dict(vocab_size=40, hidden_size=64, num_hidden_layers=5, compress_ratios=[0, 2, 1, 1, 1],
              kv_source_layer_ids=[1, 2], index_source_layer_ids=[1, 2, 3], candidate_source_layer_id=2,
              candidate_topk_blocks=2, candidate_block_size=4, index_n_heads=4, index_head_dim=64, index_topk=6,
              num_attention_heads=4, head_dim=64, qk_rope_head_dim=32, q_lora_rank=32, o_groups=2, o_lora_rank=32,
              sliding_window=8, rope_theta=10000, compress_rope_theta=160000,
              rope_scaling=dict(factor=16, beta_fast=32, beta_slow=1, original_max_position_embeddings=65536),
              n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=64, routed_scaling_factor=1.5,
              swiglu_limit=10.0, rms_norm_eps=1e-20, hc_mult=4, hc_sinkhorn_iters=20, hc_eps=1e-6,
              engram_layer_ids=[1, 3], engram_max_ngram_size=4, engram_vocab_size=50, engram_n_heads=2,
              engram_head_dim=32, engram_pad_token_id=2, engram_compressed_vocab_size=30)
COMPRESSED = [min(i, 29) for i in range(40)]
NUM_TOKENS = 61          # odd; beyond window, top-k and candidates


def random_arrays(c, seed=1):
    """Weights whose products keep their size; streams, norms and Engram values of realistic magnitudes."""
    random, arrays, quantised = np.random.default_rng(seed), {}, set()
    d, hd, heads, inner, hc = c['hidden_size'], c['head_dim'], c['num_attention_heads'], c['moe_intermediate_size'], 4
    def matrix(name, out, width, stored=True):
        arrays[name + '.weight'] = bf16((random.normal(size=(out, width)) * width ** -0.5).astype(F32))
        if stored: quantised.add(name + '.weight')
    def norm(name, width): arrays[name + '.weight'] = bf16(random.uniform(0.5, 1.5, width).astype(F32))
    arrays['embed.weight'] = bf16(random.normal(size=(c['vocab_size'], d)).astype(F32))
    arrays['head.weight'] = bf16((random.normal(size=(c['vocab_size'], d)) * d ** -0.5).astype(F32))
    norm('norm', d)
    hashes = EngramHashes(c, COMPRESSED)
    for layer in range(c['num_hidden_layers']):
        p = f'layers.{layer}'
        for half in ('attn', 'ffn'):
            norm(f'{p}.{half}_norm', d)
            arrays[f'{p}.hc_{half}_fn'] = (random.normal(size=(24, hc * d)) * (hc * d) ** -0.5).astype(F32)
            arrays[f'{p}.hc_{half}_base'] = random.normal(size=24).astype(F32)
            arrays[f'{p}.hc_{half}_scale'] = np.full(3, 0.7, F32)
        a = p + '.attn'
        arrays[a + '.attn_sink'] = random.normal(size=heads).astype(F32)
        matrix(a + '.wq_a', c['q_lora_rank'], d); norm(a + '.q_norm', c['q_lora_rank'])
        matrix(a + '.wq_b', heads * hd, c['q_lora_rank'])
        matrix(a + '.wkv', hd, d); norm(a + '.kv_norm', hd)
        matrix(a + '.wo_a', c['o_groups'] * c['o_lora_rank'], heads * hd // c['o_groups'], False)
        matrix(a + '.wo_b', d, c['o_groups'] * c['o_lora_rank'])
        if layer in c['kv_source_layer_ids']:
            matrix(a + '.compressor.wkv', hd, d, False); norm(a + '.compressor.norm', hd)
            if c['compress_ratios'][layer] == 2: matrix(a + '.compressor.wgate', hd, d, False)
            matrix(a + '.indexer.wk', c['index_head_dim'], hd, False); norm(a + '.indexer.k_norm', c['index_head_dim'])
        if layer in c['index_source_layer_ids']:
            matrix(a + '.indexer.wq_b', c['index_n_heads'] * c['index_head_dim'], c['q_lora_rank'])
            matrix(a + '.indexer.weights_proj', c['index_n_heads'], d, False)
        f = p + '.ffn'
        matrix(f + '.gate', c['n_routed_experts'], d, False)
        arrays[f + '.gate.bias'] = (0.1 * random.normal(size=c['n_routed_experts'])).astype(F32)
        for expert in ['shared_experts'] + [f'experts.{e}' for e in range(c['n_routed_experts'])]:
            for name, out, width in (('w1', inner, d), ('w2', d, inner), ('w3', inner, d)):
                matrix(f'{f}.{expert}.{name}', out, width)
        if layer in c['engram_layer_ids']:
            _, primes, offsets = hashes.tables[layer]
            rows, e = primes[-1] + offsets[-1], p + '.engram'
            # Rows with scales of their own: from 2^-6 to 2^3.
            scales = np.ldexp(1.0, random.integers(-6, 4, size=(rows, 1)))
            arrays[e + '.embed.weight'] = bf16((random.normal(size=(rows, c['engram_head_dim'])) * scales).astype(F32))
            matrix(e + '.wkv', 5 * d, len(primes) * c['engram_head_dim'])
            for name in ('.q_weight', '.k_weight'):
                arrays[e + name] = bf16(random.uniform(0.5, 1.5, (hc, d)).astype(F32))
    return arrays, quantised


ARRAYS, QUANTISED = random_arrays(CONFIG)
IDS = list(np.random.default_rng(3).integers(0, CONFIG['vocab_size'], NUM_TOKENS))


def model(precision='exact', kind=V41Model, **changes):
    return kind({**CONFIG, **changes}, ARRAYS, COMPRESSED, precision, QUANTISED)


def distance(a, b): return float(np.linalg.norm(a - b) / np.linalg.norm(b))


class Forward(unittest.TestCase):
    def test_pieces_are_the_whole(self):
        for precision in ('exact', 'released'):
            m = model(precision)
            whole = m.step(State(), IDS)
            # One token at a time, odd pieces, a pending token at every boundary, pieces longer than the window.
            for sizes in ([1] * NUM_TOKENS, [7, 1, 2, 13, 3, 35], [60, 1], [31, 30]):
                state, at, pieces = State(), 0, []
                for size in sizes:
                    pieces.append(m.step(state, IDS[at:at + size]))
                    at += size
                self.assertLess(distance(np.concatenate(pieces), whole), 3e-6 if precision == 'exact' else 2e-2)

    def test_a_token_does_not_change_what_comes_before_it(self):
        m = model()
        whole = m.step(State(), IDS)
        changed = m.step(State(), IDS[:-1] + [(IDS[-1] + 1) % 40])
        self.assertLess(distance(changed[:-1], whole[:-1]), 1e-6)
        self.assertGreater(distance(changed[-1], whole[-1]), 1e-2)

    def test_a_token_far_back_matters_through_entries(self):
        m = model()
        whole = m.step(State(), IDS)
        changed = m.step(State(), [(IDS[0] + 1) % 40] + IDS[1:])
        self.assertGreater(distance(changed[40:], whole[40:]), 1e-4)

    def test_the_collapse_is_by_the_half_block_before(self):
        class Uniform(V41Model):
            def first_pre(self, num): return np.full((num, 4), 0.25, F32)

        class AllUniform(V41Model):
            @staticmethod
            def collapse(x, pre): return V41Model.collapse(x, np.full_like(pre, 0.25))
        right = model().step(State(), IDS)
        # All streams are the embedding at first: pre (1, 0, 0, 0) and one of the same sum collapse to the same.
        self.assertLess(distance(model(kind=Uniform).step(State(), IDS), right), 1e-5)
        self.assertGreater(distance(model(kind=AllUniform).step(State(), IDS), right), 1e-2)

        class Own(V41Model):
            """Not lagged: each collapse by its own pre."""
            def mixes(self, x, p):
                pre, post, comb = super().mixes(x, p)
                self.own = pre
                return pre, post, comb
            def collapse(self, x, pre): return bf16((self.own[:, :, None] * x).sum(1))
        self.assertGreater(distance(model(kind=Own).step(State(), IDS), right), 1e-2)

    def test_norms_have_no_epsilon_to_speak_of(self):
        x = (1e-7 * np.random.default_rng(4).normal(size=(3, 64))).astype(F32)
        m = model()
        self.assertLess(distance(m.norm(x, 'norm'), m.norm(x * F32(2 ** 20), 'norm')), 1e-6)
        self.assertGreater(distance(model(rms_norm_eps=1e-6).norm(x, 'norm'), m.norm(x, 'norm')), 0.5)


class Streams(unittest.TestCase):
    def test_index_keys_are_of_latents_that_are_not_rotated(self):
        m, state, p = model(), State(), 'layers.2.attn'
        x = np.random.default_rng(5).normal(size=(9, 64)).astype(F32)
        m.make_entries(x, 2, state)
        latent = m.norm(x @ ARRAYS[p + '.compressor.wkv.weight'].T, p + '.compressor.norm')
        key = m.norm(latent @ ARRAYS[p + '.indexer.wk.weight'].T, p + '.indexer.k_norm')
        self.assertLess(distance(state.keys[2][:, :32], key[:, :32]), 1e-6)  # what is not rotated
        self.assertLess(distance(state.entries[2][:, :32], latent[:, :32]), 1e-6)
        cos, sin = (t[4] for t in rope_table(CONFIG, 9, True))
        self.assertLess(distance(state.keys[2][4, 32:], rope(key[4, 32:], cos, sin)), 1e-6)

    def test_entries_of_two_tokens(self):
        state = State()
        m = model()
        m.step(state, IDS)
        self.assertEqual(len(state.entries[1]), NUM_TOKENS // 2)
        self.assertEqual(len(state.pending[1]), 1)
        self.assertEqual(len(state.entries[2]), NUM_TOKENS)
        # Gates that say the first token alone make its projection the latent.
        x = np.random.default_rng(5).normal(size=(4, 64)).astype(F32)
        arrays = dict(ARRAYS)
        first = State()
        own = V41Model(CONFIG, arrays, COMPRESSED)
        gate = np.zeros((64, 64), F32)
        arrays['layers.1.attn.compressor.wgate.weight'] = gate
        own.make_entries(x, 1, first)
        mean = x.reshape(2, 2, 64).mean(1) @ arrays['layers.1.attn.compressor.wkv.weight'].T
        want = own.norm(mean, 'layers.1.attn.compressor.norm')
        self.assertLess(distance(first.entries[1][:, :32], want[:, :32]), 1e-6)

    def test_candidates_hold_later_selections(self):
        m = model()
        m.step(State(), IDS)
        found = m.last_found
        for row, (allowed, top) in enumerate(zip(found['candidates'], found['top'])):
            self.assertTrue(allowed[top].all())
            self.assertLessEqual(allowed.sum(), 8)
            self.assertTrue(allowed[row])             # the newest entry's block is always one
            self.assertTrue((np.diff(top) > 0).all())
            self.assertEqual(len(top), min(6, allowed.sum()))
        free = model(candidate_topk_blocks=100)
        self.assertGreater(distance(free.step(State(), IDS), m.step(State(), IDS)), 1e-4)

    def test_with_room_for_all_every_visible_entry_is_selected(self):
        m = model(index_topk=100, candidate_topk_blocks=100)
        m.step(State(), IDS)
        for row, top in enumerate(m.last_found['top']): self.assertEqual(list(top), list(range(row + 1)))

    def test_entry_rows(self):
        x = np.zeros(32, F32)
        x[:4], x[16] = [12, -3, 0.5, 1.5], 7
        self.assertEqual(list(entry_sim(x)[[0, 1, 2, 3, 16]]), [12, -3, 0, 2, 6.75])
        self.assertTrue((entry_sim(np.zeros(512, F32)) == 0).all())


class Engram(unittest.TestCase):
    def test_published_multipliers_and_rows(self):
        released = dict(engram_layer_ids=[1, 14], engram_max_ngram_size=4, engram_vocab_size=16000000,
                        engram_n_heads=8, engram_pad_token_id=2, engram_compressed_vocab_size=99092)
        tables = EngramHashes(released, [0, 1, 2]).tables
        self.assertEqual(list(tables[1][0]), [76632096046245, 4839876093313, 35959672319349, 73987337458391])
        self.assertEqual(list(tables[14][0]), [67716810739261, 51510806800915, 30921347202721, 82619226485591])
        self.assertEqual(sum(tables[1][1]), 384006168)
        self.assertEqual(sum(tables[14][1]), 384016682)

    def test_a_token_four_back_does_not_matter(self):
        hashes = EngramHashes(CONFIG, COMPRESSED)
        rows = hashes.rows(1, [5, 6, 7, 8, 9])
        self.assertEqual(list(rows), list(hashes.rows(1, [1, 6, 7, 8, 9])))
        self.assertNotEqual(list(rows), list(hashes.rows(1, [5, 1, 7, 8, 9])))
        self.assertEqual(list(hashes.rows(1, [39, 9])), list(hashes.rows(1, [38, 9])))  # one text
        self.assertEqual(list(hashes.rows(1, [9])), list(hashes.rows(1, [2, 2, 2, 9])))

    def test_the_gate_of_a_zero_has_its_sign(self):
        gate = V41Model.engram_gate(np.array([0.0, -0.0, 4.0, -4.0], F32))
        np.testing.assert_allclose(gate, [1 / (1 + np.exp(-1e-3)), 1 / (1 + np.exp(1e-3)), 1 / (1 + np.exp(-2.0)),
                                          1 / (1 + np.exp(2.0))], rtol=1e-6)

    def test_what_is_added_depends_on_the_streams_direction_alone(self):
        m = model()
        x = np.random.default_rng(6).normal(size=(5, 4, 64)).astype(F32)
        added = m.engram(x, 1, [], IDS[:5]) - x
        scaled = m.engram(x * F32(1e-6), 1, [], IDS[:5]) - x * F32(1e-6)
        self.assertLess(distance(scaled, added), 1e-4)


if __name__ == '__main__':
    unittest.main()
