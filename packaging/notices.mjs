// notices.mjs [--check]: writes packaging/notices.txt, the licences of the libraries that the program is
// compiled with, from packaging/libraries.txt and the copyright files that Debian installs beside each of
// them; or compares it with what is committed. The page's own notices are web/scripts/notices.mjs's.
import { readFileSync, writeFileSync } from 'node:fs';

const here = (name) => new URL(name, import.meta.url);
const rule = '-'.repeat(80);

/** The rows of libraries.txt. */
export function libraries() {
  return readFileSync(here('libraries.txt'), 'utf8')
    .split('\n')
    .filter((line) => line.trim() !== '' && !line.startsWith('#'))
    .map((line) => {
      const [name, variable, debianPackage, licence] = line.split('|').map((column) => column.trim());
      return { name, variable, debianPackage, licence };
    });
}

/** The fields of a paragraph of a copyright file in Debian's machine-readable format. */
function fields(paragraph) {
  const found = {};
  let name = null;
  for (const line of paragraph.split('\n')) {
    const field = /^([A-Za-z-]+):(.*)$/.exec(line);
    if (field) {
      name = field[1];
      found[name] = field[2].trim();
    } else if (name) {
      found[name] += `\n${line.trim() === '.' ? '' : line.replace(/^ /, '')}`;
    }
  }
  return found;
}

/** Copyright and licence of the upstream code of a package (its paragraph `Files: *`), as plain text. */
export function upstreamTerms(copyrightFile, debianPackage) {
  const paragraphs = copyrightFile.split(/\n\s*\n/).map(fields);
  const main = paragraphs.find(({ Files }) => Files?.trim() === '*');
  if (!main) return copyrightFile.trim();
  const [title, ...embedded] = main.License.trim().split('\n');
  // Of alternatives the first is taken: "BSD-3-clause or GPL-2".
  const chosen = title.split(' or ')[0].trim();
  const names = ({ License }) => License?.split('\n')[0].trim() === chosen;
  const standalone = paragraphs.find((paragraph) => !paragraph.Files && names(paragraph));
  const body = embedded.length > 0 ? embedded : standalone?.License.split('\n').slice(1);
  if (!body) throw new Error(`${debianPackage}: its copyright file lacks the text of ${chosen}`);
  const said = main.Copyright.split('\n').map((line) => line.trim());
  const holders = said.filter((line) => !['', '.'].includes(line));
  const stated = holders.some((line) => /copyright/i.test(line));
  const lines = stated ? holders : holders.map((line) => `Copyright ${line}`);
  return `${lines.join('\n')}\n\n${body.map((line) => line.trimEnd()).join('\n').trim()}`;
}

/** The whole text of notices.txt. */
export function programNotices() {
  const entries = libraries().map(({ name, debianPackage, licence }) => {
    const file = readFileSync(`/usr/share/doc/${debianPackage}/copyright`, 'utf8');
    return `${rule}\n${name} (${licence})\n${rule}\n\n${upstreamTerms(file, debianPackage)}`;
  });
  const cuda =
    `${rule}\nNVIDIA CUDA runtime (in builds with CUDA)\n${rule}\n\n` +
    'This software contains the CUDA runtime library (cudart_static) of the NVIDIA CUDA Toolkit,\n' +
    'distributed under the NVIDIA Software License Agreement and CUDA Supplement:\n' +
    'https://docs.nvidia.com/cuda/eula/';
  return `${[
    "The program Baleen contains code of the following libraries. Baleen's own licence is Apache-2.0.",
    ...entries,
    cuda,
  ].join('\n\n')}\n`;
}

if (process.argv[1] === here('notices.mjs').pathname) {
  const written = programNotices();
  if (process.argv[2] !== '--check') {
    writeFileSync(here('notices.txt'), written);
  } else if (readFileSync(here('notices.txt'), 'utf8') !== written) {
    console.error('packaging/notices.txt is stale: run `node packaging/notices.mjs` and commit the result');
    process.exitCode = 1;
  }
}
