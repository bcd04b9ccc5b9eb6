// `baleen --version` for people and as JSON.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import test from 'node:test';

const baleen = (...words) => execFileSync(process.env.BALEEN, words, { encoding: 'utf8' });
const cuda = process.env.BALEEN_CUDA === 'ON';

test('lines for people begin with name and version', () => {
  const lines = baleen('--version').trimEnd().split('\n');
  assert.match(lines[0], /^baleen \d+\.\d+\.\d+$/);
  const words = lines.slice(1).map((line) => line.split(' ')[0]);
  assert.deepEqual(words, ['revision', 'compiler', 'CUDA', 'libraries', 'licence']);
  assert.match(lines[3], cuda ? /sm\d+/ : /no module of kernels/);
});

test('one JSON line has the same facts, with a version for each library', () => {
  const text = baleen('--version', '--json');
  assert.equal(text.trimEnd().split('\n').length, 1);
  const facts = JSON.parse(text);
  assert.equal(`baleen ${facts.version}`, baleen('--version').split('\n')[0]);
  for (const name of ['revision', 'compiler', 'build_type', 'processor']) assert.ok(facts[name], name);
  if (cuda) assert.match(facts.cuda.architectures[0], /^sm\d+/);
  else assert.equal(facts.cuda, null);
  const table = readFileSync(new URL('../../packaging/libraries.txt', import.meta.url), 'utf8');
  const rows = table.split('\n').filter((line) => line && !line.startsWith('#'));
  const names = rows.map((row) => row.split('|')[0].trim());
  assert.deepEqual(Object.keys(facts.libraries), names);
  for (const [name, version] of Object.entries(facts.libraries)) assert.match(version, /^\d+\.\d+/, name);
});

test('--json without --version is wrong usage', () => {
  const { status, stderr } = spawnSync(process.env.BALEEN, ['--json', 'man'], { encoding: 'utf8' });
  assert.equal(status, 2);
  assert.match(stderr, /--version/);
});
