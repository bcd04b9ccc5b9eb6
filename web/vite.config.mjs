import { defineConfig } from 'vite';
import { notices } from './scripts/notices.mjs';
import { singleFile } from './scripts/single_file.mjs';

/** The script letters of formulas come from the reader's own mathematical font: no font is bundled. */
const withoutFonts = {
  name: 'without-fonts',
  enforce: 'pre',
  transform: (code, id) => (id.endsWith('.css') ? code.replace(/@font-face\s*\{[^}]*\}/g, '') : null),
};

/**
 * The PDF reader wants text alone: the decoder of JPEG 2000 pictures, a program of others inside pdf.js, is
 * left out.
 */
const withoutPictures = {
  name: 'without-pictures',
  enforce: 'pre',
  transform(code, id) {
    if (!id.endsWith('/pdf.worker.mjs')) return null;
    const begin = code.indexOf('var OpenJPEG = (() => {');
    const end = code.indexOf('/* harmony default export */ const openjpeg = (OpenJPEG);');
    if (begin < 0 || end < begin) this.error('pdf.worker.mjs has its decoder of JPEG 2000 at another place');
    const instead = "const OpenJPEG = () => ({ decode: () => 'pictures are not read' });\n";
    return { code: code.slice(0, begin) + instead + code.slice(end), map: null };
  },
};

export default defineConfig({
  plugins: [withoutFonts, withoutPictures, notices(), singleFile()],
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'none' },
  build: {
    target: ['chrome123', 'firefox125', 'safari17.5'], // the first that know light-dark() and popover
    modulePreload: false,
    assetsInlineLimit: Number.MAX_SAFE_INTEGER,
    cssCodeSplit: false,
    chunkSizeWarningLimit: 2000,
    rollupOptions: {
      input: { index: 'index.html', pdf_reader: 'src/pdf/pdf_reader.ts' },
      output: {
        entryFileNames: (entry) => (entry.name === 'pdf_reader' ? '[name].js' : 'assets/[name]-[hash].js'),
      },
    },
  },
  server: {
    proxy: {
      '^/(v1|stats|health|page.json|conversations)': process.env.BALEEN_URL ?? 'http://127.0.0.1:8080',
    },
  },
  test: { include: ['test/**/*.test.ts'], css: true },
});
