#!/usr/bin/python3
"""What must hold of any right DSpark of V4.1, of v41_dspark_oracle.py on tiny random weights:

    tests/drafts/v41_dspark_oracle_test.py ../shared/oracle
"""
import copy, os, sys, unittest
import numpy as np

if len(sys.argv) < 2: sys.exit(__doc__)
HERE = os.path.dirname(os.path.abspath(__file__))
ORACLE = sys.argv.pop(1)
sys.path[:0] = [ORACLE, os.path.join(HERE, '..', 'forward'), HERE]
sys.argv.insert(1, ORACLE)
import v41_oracle_test as main_test                 # takes the oracle's folder from the command line
from oracle import F32, bf16
from v41_oracle import State
from v41_dspark_oracle import V41DsparkModel

CONFIG = {**main_test.CONFIG, 'dspark_target_layer_ids': [2, 3, 4], 'dspark_block_size': 5, 'dspark_markov_rank': 8,
          'dspark_noise_token_id': 39, 'dspark_n_routed_experts': 3, 'dspark_num_experts_per_tok': 2}
STAGES = 3


def random_arrays(c, seed=11):
    """Those of the main model, and the head's."""
    # A stage has the tensors of a layer of ratio 0: layer 0 of other random numbers.
    arrays, quantised = dict(main_test.ARRAYS), set(main_test.QUANTISED)
    random = np.random.default_rng(seed)
    d, rank, V = c['hidden_size'], c['dspark_markov_rank'], c['vocab_size']
    own = {**main_test.CONFIG, 'n_routed_experts': c['dspark_n_routed_experts']}
    for n in range(STAGES):
        made, stored = main_test.random_arrays(own, seed + n)
        prefix = 'layers.0.'
        for name in made:
            if name.startswith(prefix): arrays[f'mtp.{n}.' + name[len(prefix):]] = made[name]
        quantised |= {f'mtp.{n}.' + name[len(prefix):] for name in stored if name.startswith(prefix)}
    width = len(c['dspark_target_layer_ids']) * d
    arrays['mtp.0.main_proj.weight'] = bf16((random.normal(size=(d, width)) * width ** -0.5).astype(F32))
    quantised.add('mtp.0.main_proj.weight')
    for name in ('mtp.0.main_norm', 'mtp.2.norm'):
        arrays[name + '.weight'] = bf16(random.uniform(0.5, 1.5, d).astype(F32))
    for name in ('embed', 'head'):
        arrays[f'mtp.2.markov_head.{name}.weight'] = bf16(random.normal(size=(V, rank)).astype(F32))
    arrays['mtp.2.confidence_head.proj.weight'] = bf16(random.normal(size=(1, d + rank)).astype(F32))
    return arrays, quantised


ARRAYS, QUANTISED = random_arrays(CONFIG)
IDS = main_test.IDS


def model(precision='exact', kind=V41DsparkModel, **changes):
    return kind({**CONFIG, **changes}, ARRAYS, main_test.COMPRESSED, precision, QUANTISED)


def seen(m, ids, sizes=None):
    state, at = State(), 0
    for size in sizes or [len(ids)]:
        m.step(state, ids[at:at + size])
        at += size
    return state


def distance(a, b): return float(np.linalg.norm(a - b) / np.linalg.norm(b))


class Drafts(unittest.TestCase):
    def test_rows_of_pieces_are_those_of_the_whole(self):
        m = model()
        whole = m.draft(seen(m, IDS), [7])
        for sizes in ([1] * len(IDS), [13, 8, 40]):  # the window of 8 goes round many times
            block = m.draft(seen(m, IDS, sizes), [7])
            self.assertLess(distance(block.logits, whole.logits), 1e-5)
            self.assertLess(distance(block.confidence, whole.confidence), 1e-5)
            self.assertEqual(block.fed, whole.fed)

    def test_released_precision_is_near(self):
        exact, released = model(), model('released')
        fed = exact.draft(seen(exact, IDS[:9]), [7]).fed
        want, got = (m.draft(seen(m, IDS[:9]), fed).logits for m in (exact, released))
        self.assertTrue(0 < distance(got, want) < 0.2, distance(got, want))

    def test_a_short_history(self):
        m = model()
        for length in (1, 2, 7): self.assertTrue(np.isfinite(m.draft(seen(m, IDS[:length]), [7]).logits).all())

    def test_a_block_sees_itself_in_both_directions(self):
        m = model()
        state = seen(m, IDS)
        fed = m.draft(state, [7]).fed
        ids = [7] + [CONFIG['dspark_noise_token_id']] * 4
        embeddings = ARRAYS['embed.weight'][ids].copy()
        plain = m.draft(state, fed, embeddings)
        self.assertLess(distance(plain.logits, m.draft(state, fed).logits), 1e-6)
        embeddings[4] = ARRAYS['embed.weight'][3]
        self.assertGreater(distance(m.draft(state, fed, embeddings).logits[0], plain.logits[0]), 1e-3)

    def test_a_draft_leaves_no_trace(self):
        m = model()
        state = seen(m, IDS[:20])
        before = copy.deepcopy(state)
        m.draft(state, [7])
        self.assertEqual(state.position, before.position)
        for stage in m.stages: np.testing.assert_array_equal(state.window[stage], before.window[stage])

    def test_what_lies_beyond_the_window_does_not_matter(self):
        m = model()
        state = seen(m, IDS)
        want = m.draft(state, [7])
        for stage in m.stages: state.window[stage][:-CONFIG['sliding_window']] = np.nan
        np.testing.assert_array_equal(m.draft(state, [7]).logits, want.logits)

    def test_it_reads_the_streams_before_attention(self):
        class Behind(V41DsparkModel):
            """Means of the layer's output: the input of the next one."""
            def mixes(self, x, p):
                for layer in self.targets:
                    if p == f'layers.{layer}.hc_attn': self.means[layer] = bf16(x.mean(1))
                    if p == f'layers.{layer + 1}.hc_attn': self.means[layer] = bf16(x.mean(1))
                return super(V41DsparkModel, self).mixes(x, p)
        right, wrong = model(), model(kind=Behind)
        self.assertGreater(distance(wrong.draft(seen(wrong, IDS), [7]).logits, right.draft(seen(right, IDS), [7]).logits),
                           1e-3)

    def test_the_last_collapse_is_by_the_last_experts(self):
        class Uniform(V41DsparkModel):
            def draft(self, *args):
                self.count = 0
                return super().draft(*args)
            def collapse(self, x, pre):
                self.count = getattr(self, 'count', 0) + 1
                return super().collapse(x, np.full_like(pre, 0.25) if self.count == 2 * STAGES + 1 else pre)
        right, wrong = model(), model(kind=Uniform)
        state = seen(right, IDS)
        self.assertGreater(distance(wrong.draft(state, [7]).logits, right.draft(state, [7]).logits), 1e-3)

    def test_confidence_is_of_the_token_that_is_fed(self):
        m = model()
        state = seen(m, IDS)
        fed = m.draft(state, [7]).fed
        other = [fed[0], fed[1], (fed[2] + 1) % 40, *fed[3:]]
        want, got = m.draft(state, fed), m.draft(state, other)
        self.assertEqual(list(got.confidence != want.confidence), [False, False, True, False, False])
        self.assertEqual([bool((a != b).any()) for a, b in zip(got.logits, want.logits)],
                         [False, False, True, False, False])

    def test_stages_have_experts_of_their_own(self):
        m = model()
        state = seen(m, IDS)
        one = model(dspark_num_experts_per_tok=1)
        self.assertGreater(distance(one.draft(state, [7]).logits, m.draft(state, [7]).logits), 1e-3)
        np.testing.assert_array_equal(one.step(State(), IDS), m.step(State(), IDS))


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0]])
