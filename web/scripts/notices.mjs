import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The folder of the package that a bundled module belongs to; null for sources of the page itself. */
function packageFolder(moduleId) {
  const path = moduleId.replace(/^\0/, '').replace(/\?.*$/, '');
  const found = /^(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)/.exec(path);
  return found && existsSync(join(found[1], 'package.json')) ? found[1] : null;
}

/** All texts of a package that say under which terms it is given. */
function licenceTexts(folder) {
  const names = readdirSync(folder).filter((name) => /^(licen[cs]e|notice|copying)/i.test(name));
  return names.sort().map((name) => readFileSync(join(folder, name), 'utf8').trim());
}

/** Name, version, licence and text of each package that has a module among `moduleIds`. */
export function noticesOf(moduleIds) {
  const folders = new Set(moduleIds.map(packageFolder).filter((folder) => folder !== null));
  const entries = [...folders].map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    const texts = licenceTexts(folder);
    if (texts.length === 0) throw new Error(`${name} is bundled, but ${folder} has no licence text`);
    return { name, title: `${name} ${version} (${license})`, text: texts.join('\n\n') };
  });
  entries.sort((a, b) => (a.name < b.name ? -1 : 1));
  const rule = '-'.repeat(80);
  return [
    "The page of Baleen contains code of the following packages. Baleen's own licence is Apache-2.0.",
    ...entries.map(({ title, text }) => `${rule}\n${title}\n${rule}\n\n${text}`),
  ]
    .join('\n\n')
    .concat('\n');
}

/** Writes notices.txt beside the page, from the modules that are really bundled. */
export function notices() {
  const moduleIds = new Set();
  return {
    name: 'notices',
    apply: 'build',
    // Style sheets leave no module in the chunk, so they are noted as they are read.
    transform: (_code, id) => {
      if (id.endsWith('.css')) moduleIds.add(id);
      return null;
    },
    generateBundle(_options, bundle) {
      for (const file of Object.values(bundle)) {
        if (file.type === 'chunk') for (const id of Object.keys(file.modules)) moduleIds.add(id);
      }
      this.emitFile({ type: 'asset', fileName: 'notices.txt', source: noticesOf([...moduleIds]) });
    },
  };
}
