// Builds the page into a temporary folder and compares it with the committed one, byte for byte.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const folder = mkdtempSync(join(tmpdir(), 'baleen_web_'));
try {
  await build({ root, logLevel: 'warn', build: { outDir: folder, emptyOutDir: true } });
  const built = readFileSync(join(folder, 'index.html'));
  const committed = readFileSync(join(root, 'dist', 'index.html'));
  if (built.equals(committed)) {
    console.log(`dist/index.html is fresh: ${built.length} bytes`);
  } else {
    console.error(
      `web/dist/index.html is stale: ${committed.length} bytes committed, ${built.length} built from web/src. ` +
        'Run `npm run build` in web/ and commit the result.',
    );
    process.exitCode = 1;
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
