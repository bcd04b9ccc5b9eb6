// Builds the page into a temporary folder and compares what is written with what is committed, byte for byte.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const folder = mkdtempSync(join(tmpdir(), 'baleen_web_'));
try {
  await build({ root, logLevel: 'warn', build: { outDir: folder, emptyOutDir: true } });
  for (const name of ['index.html', 'pdf_reader.js', 'notices.txt']) {
    const built = readFileSync(join(folder, name));
    const committed = readFileSync(join(root, 'dist', name));
    if (built.equals(committed)) {
      console.log(`dist/${name} is fresh: ${built.length} bytes`);
      continue;
    }
    console.error(
      `web/dist/${name} is stale: ${committed.length} bytes committed, ${built.length} built from web/src. ` +
        'Run `npm run build` in web/ and commit the result.',
    );
    process.exitCode = 1;
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
