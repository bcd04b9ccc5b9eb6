import { defineConfig } from 'vite';
import { notices } from './scripts/notices.mjs';
import { singleFile } from './scripts/single_file.mjs';

/** The script letters of formulas come from the reader's own mathematical font: no font is bundled. */
const withoutFonts = {
  name: 'without-fonts',
  enforce: 'pre',
  transform: (code, id) => (id.endsWith('.css') ? code.replace(/@font-face\s*\{[^}]*\}/g, '') : null),
};

export default defineConfig({
  plugins: [withoutFonts, notices(), singleFile()],
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'none' },
  build: {
    target: ['chrome123', 'firefox120', 'safari17.5'], // the first that know light-dark()
    modulePreload: false,
    assetsInlineLimit: Number.MAX_SAFE_INTEGER,
    cssCodeSplit: false,
  },
  server: { proxy: { '^/(v1|stats|health)': process.env.BALEEN_URL ?? 'http://127.0.0.1:8080' } },
  test: { include: ['test/**/*.test.ts'], css: true },
});
