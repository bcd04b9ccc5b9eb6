import { defineConfig } from 'vite';
import { singleFile } from './scripts/single_file.mjs';

export default defineConfig({
  plugins: [singleFile()],
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'none' },
  build: {
    target: ['chrome123', 'firefox120', 'safari17.5'], // the first that know light-dark()
    modulePreload: false,
    assetsInlineLimit: Number.MAX_SAFE_INTEGER,
    cssCodeSplit: false,
  },
  server: { proxy: { '^/(v1|stats|health)': process.env.BALEEN_URL ?? 'http://127.0.0.1:8080' } },
  test: { include: ['test/**/*.test.ts'] },
});
