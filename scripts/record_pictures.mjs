// node scripts/record_pictures.mjs [NAME...]: docs/pictures/NAME.png for each page below, or for those named,
// its figures as headless Chromium draws them. Runs of training are those that
// scripts/record_training.sh left under bench/results/training; a page of which there is no run is left out.
// Needs the release build and the packages of tests/web (scripts/install_npm.sh tests/web).
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const repository = dirname(dirname(fileURLToPath(import.meta.url)));
const { chromium } = createRequire(join(repository, 'tests', 'web', 'package.json'))('playwright-core');
const logged = (...names) => names.map((name) => join('bench', 'results', 'training', name))
  .filter((run) => existsSync(join(repository, run, 'log.jsonl')));
const report = (runs) => runs.length > 0 && ((file) => ['train', '--report', ...runs, '-o', file]);

// The arguments of `baleen`, or of Python, that write the page to a file.
const pages = [
  {
    name: 'plot',
    command: (file) => ['simulate', 'search', 'flash', '--num-devices', '8', '--isl', '4096', '--osl', '1024',
      '--ttft', '1000', '--tpot', '20', '--html', file],
  },
  { name: 'scaling', script: (file) => [join('scripts', 'scaling_page.py'), file] },
  { name: 'training', command: report(logged('stories-cpu')) },
  // The figures of the page under these titles alone.
  { name: 'stories', command: report(logged('stories-cpu')), only: ['Held-out loss', 'Loads of experts'] },
  {
    name: 'ablations',
    command: report(logged('muon', 'adamw', 'adamw-slow', 'no-balance', 'no-mtp', 'plain', 'qat')),
  },
].filter(({ name, command, script }) => (command || script)
  && (process.argv.length === 2 || process.argv.includes(name, 2)));

const folder = mkdtempSync(join(tmpdir(), 'baleen-pictures-'));
try {
  const executablePath = execFileSync('which', ['chromium'], { encoding: 'utf8' }).trim();
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
  for (const { name, command, script, only } of pages) {
    const file = join(folder, `${name}.html`);
    const program = script ? 'python3' : join(repository, 'build', 'release', 'src', 'app', 'baleen');
    execFileSync(program, (script ?? command)(file),
      { cwd: repository, stdio: ['ignore', 'ignore', 'inherit'] });
    const page = await browser.newPage({ viewport: { width: 1240, height: 900 }, colorScheme: 'light' });
    await page.goto(pathToFileURL(file).href);
    if (only) {
      await page.locator('.figures > *').evaluateAll((figures, titles) => figures
        .filter((figure) => !titles.some((title) => figure.textContent.trim().startsWith(title)))
        .forEach((figure) => figure.remove()), only);
    }
    await page.locator('.figures').screenshot({ path: join(repository, 'docs', 'pictures', `${name}.png`) });
    await page.close();
  }
  await browser.close();
} finally {
  rmSync(folder, { recursive: true });
}
