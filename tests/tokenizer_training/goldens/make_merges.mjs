// Writes merges.txt: the merges that the `tokenizers` library learns from corpus.txt with the pre-tokenizer
// of DeepSeek-V4, by its own trainer with its defaults (30,000 tokens, every count), one a line in their
// order.
//
//     npm install tokenizers@0.23.2 && node make_merges.mjs
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Tokenizer } from 'tokenizers';

const here = (name) => new URL(name, import.meta.url).pathname;
const released = JSON.parse(readFileSync(here('../../../models/stories/tokenizer.json'), 'utf8'));
released.added_tokens = [];
released.model.vocab = {};
released.model.merges = [];
const tokenizer = Tokenizer.fromString(JSON.stringify(released));
tokenizer.train([here('corpus.txt')]);
const folder = mkdtempSync(join(tmpdir(), 'merges-'));
tokenizer.save(join(folder, 'tokenizer.json'), false);
const trained = JSON.parse(readFileSync(join(folder, 'tokenizer.json'), 'utf8'));
const lines = trained.model.merges.map((pair) => (Array.isArray(pair) ? pair.join(' ') : pair));
writeFileSync(here('merges.txt'), lines.join('\n') + '\n');
