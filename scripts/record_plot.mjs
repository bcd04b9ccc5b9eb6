// node scripts/record_plot.mjs: docs/pictures/plot.png, the plots of a `baleen simulate search` as headless Chromium draws
// them. Needs the release build and the packages of tests/web (scripts/install_npm.sh tests/web).
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const repository = dirname(dirname(fileURLToPath(import.meta.url)));
const { chromium } = createRequire(join(repository, 'tests', 'web', 'package.json'))('playwright-core');
const search = ['simulate', 'search', 'flash', '--num-devices', '8', '--isl', '4096', '--osl', '1024', '--ttft', '1000', '--tpot', '20'];

const folder = mkdtempSync(join(tmpdir(), 'baleen-plot-'));
try {
  const file = join(folder, 'search.html');
  execFileSync(join(repository, 'build', 'release', 'src', 'app', 'baleen'), [...search, '--html', file], { stdio: 'ignore' });
  const executablePath = execFileSync('which', ['chromium'], { encoding: 'utf8' }).trim();
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
  const page = await browser.newPage({ viewport: { width: 1240, height: 900 }, colorScheme: 'light' });
  await page.goto(pathToFileURL(file).href);
  await page.locator('.figures').screenshot({ path: join(repository, 'docs', 'pictures', 'plot.png') });
  await browser.close();
} finally {
  rmSync(folder, { recursive: true });
}
