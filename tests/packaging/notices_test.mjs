// Nothing is compiled into the program without its notice.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import test from 'node:test';

import { libraries, programNotices, upstreamTerms } from '../../packaging/notices.mjs';

const run = (...words) => execFileSync(words[0], words.slice(1), { encoding: 'utf8', maxBuffer: 1 << 30 });
const root = (name) => new URL(`../../${name}`, import.meta.url);

/** Headers outside the repository that any object of src/ was compiled with, as the build recorded them. */
function foreignHeaders() {
  const headers = new Set();
  let ours = false;
  for (const line of run('ninja', '-C', process.env.BUILD, '--quiet', '-t', 'deps').split('\n')) {
    if (!line.startsWith(' ')) ours = line.startsWith('src/');
    else if (ours && line.trim().startsWith('/usr/include/')) headers.add(line.trim());
  }
  return [...headers];
}

// The C and C++ libraries and the kernel's interfaces: their exceptions ask for no notice in programs.
const toolchain = /^(libc6-dev|linux-libc-dev|libcrypt-dev|libstdc\+\+-\d+-dev|libgcc-\d+-dev)$/;

test('every Debian package whose headers were compiled in is in packaging/libraries.txt', (t) => {
  if (!existsSync('/usr/bin/dpkg')) return t.skip('no dpkg here');
  const headers = foreignHeaders();
  assert.ok(headers.some((name) => name.includes('/nlohmann/')), 'the build recorded no headers');
  const found = new Set();
  for (let begin = 0; begin < headers.length; begin += 500) {
    for (const line of run('dpkg', '-S', ...headers.slice(begin, begin + 500)).trim().split('\n')) {
      for (const name of line.split(': ')[0].split(', ')) found.add(name.split(':')[0]);
    }
  }
  const listed = new Set(libraries().map(({ debianPackage }) => debianPackage));
  const missing = [...found].filter((name) => !listed.has(name) && !toolchain.test(name));
  assert.deepEqual(missing, [], 'add rows to packaging/libraries.txt; run node packaging/notices.mjs');
});

test('packaging/notices.txt is what the copyright files of the packages say', () => {
  assert.equal(readFileSync(root('packaging/notices.txt'), 'utf8'), programNotices());
});

test('a package without the text of its licence is refused', () => {
  const file = 'Format: 1.0\n\nFiles: *\nCopyright: 2026 A\nLicense: MIT\n';
  assert.throws(() => upstreamTerms(file, 'liba-dev'), /liba-dev/);
});

test('the program prints both notices, each package of the page among them', () => {
  const printed = run(process.env.BALEEN, 'notices');
  for (const { name } of libraries()) assert.ok(printed.includes(`\n${name} (`), name);
  const { dependencies } = JSON.parse(readFileSync(root('web/package.json'), 'utf8'));
  for (const name of Object.keys(dependencies)) assert.ok(printed.includes(`\n${name} `), name);
  assert.ok(printed.startsWith(readFileSync(root('packaging/notices.txt'), 'utf8')));
  assert.ok(printed.endsWith(readFileSync(root('web/dist/notices.txt'), 'utf8')));
});
