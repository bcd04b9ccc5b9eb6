// node scripts/record_pictures.mjs: docs/pictures/NAME.png for each page below, its figures as headless Chromium
// draws them. Needs the release build and the packages of tests/web (scripts/install_npm.sh tests/web).
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const repository = dirname(dirname(fileURLToPath(import.meta.url)));
const { chromium } = createRequire(join(repository, 'tests', 'web', 'package.json'))('playwright-core');
const run = (name) => join('bench', 'results', 'training', name);

// The arguments of `baleen` that write the page to a file, and which of its figures are drawn.
const pages = [
  {
    name: 'plot',
    figures: '.figures',
    command: (file) => ['simulate', 'search', 'flash', '--num-devices', '8', '--isl', '4096', '--osl', '1024',
      '--ttft', '1000', '--tpot', '20', '--html', file],
  },
  { name: 'training', figures: '.figures', command: (file) => ['train', '--report', run('stories-cpu'), '-o', file] },
  {
    name: 'ablations',
    figures: '.figures',
    command: (file) => ['train', '--report', ...['muon', 'adamw', 'adamw-slow', 'no-balance', 'no-mtp', 'plain', 'qat'].map(run),
      '-o', file],
  },
];

const folder = mkdtempSync(join(tmpdir(), 'baleen-pictures-'));
try {
  const executablePath = execFileSync('which', ['chromium'], { encoding: 'utf8' }).trim();
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
  for (const { name, figures, command } of pages) {
    const file = join(folder, `${name}.html`);
    execFileSync(join(repository, 'build', 'release', 'src', 'app', 'baleen'), command(file),
      { cwd: repository, stdio: ['ignore', 'ignore', 'inherit'] });
    const page = await browser.newPage({ viewport: { width: 1240, height: 900 }, colorScheme: 'light' });
    await page.goto(pathToFileURL(file).href);
    await page.locator(figures).screenshot({ path: join(repository, 'docs', 'pictures', `${name}.png`) });
    await page.close();
  }
  await browser.close();
} finally {
  rmSync(folder, { recursive: true });
}
