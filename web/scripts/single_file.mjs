import { createHash } from 'node:crypto';

const sha256 = (text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

/** Stand beside the page: what the server gives under names of their own. */
const kBeside = ['notices.txt', 'pdf_reader.js'];

/**
 * Puts the one script and the one style sheet into index.html, with a policy that lets the page run nothing
 * else but the server's workers, and speak to no other origin.
 */
export function singleFile() {
  return {
    name: 'single-file',
    enforce: 'post',
    apply: 'build',
    generateBundle(_options, bundle) {
      const files = Object.values(bundle).filter((file) => !kBeside.includes(file.fileName));
      const page = files.find((file) => file.fileName === 'index.html');
      const scripts = files.filter((file) => file.type === 'chunk');
      const styles = files.filter((file) => file.fileName.endsWith('.css'));
      if (!page || scripts.length !== 1 || styles.length !== 1 || files.length !== 3) {
        const found = files.map((file) => file.fileName).join(', ');
        this.error(`expected index.html, one script and one style sheet; found ${found}`);
      }
      const script = scripts[0].code.trim().replaceAll('</script', '<\\/script');
      const style = String(styles[0].source).trim();
      const policy = [
        "default-src 'none'",
        `script-src ${sha256(script)}`,
        `style-src ${sha256(style)}`,
        "worker-src 'self'",
        // The server adds the origins of MCP servers that its operator allows.
        "connect-src 'self'",
        'img-src data:',
        "base-uri 'none'",
        "form-action 'none'",
      ].join('; ');

      // Replacements are functions: "$&" in the script is no pattern.
      page.source = String(page.source)
        .replace(/\s*<script type="module"[^>]*><\/script>/, '')
        .replace(/\s*<link rel="stylesheet"[^>]*>/, '')
        .replace(
          '<meta charset="utf-8" />',
          (tag) => `${tag}\n    <meta http-equiv="Content-Security-Policy" content="${policy}" />`,
        )
        .replace('</head>', () => `  <style>${style}</style>\n  </head>`)
        .replace('</body>', () => `  <script type="module">${script}</script>\n  </body>`);
      delete bundle[scripts[0].fileName];
      delete bundle[styles[0].fileName];
    },
  };
}
