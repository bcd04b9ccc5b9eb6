import { expect, test } from 'vitest';
import { parseMarkdown } from '../../src/markdown/parse';

test('text that would take seconds, or the stack, is shown as it stands', () => {
  for (const text of [
    '*a '.repeat(20_000),
    '_a__b '.repeat(20_000),
    `${'>'.repeat(50_000)}a`,
    '> '.repeat(9000),
  ])
    expect(parseMarkdown(text)).toBeNull();
});

test('long text of the usual kind is read', () => {
  const pointers = `\`\`\`c\n${'int **a = *b;\n'.repeat(500)}\`\`\``;
  const prose = '**bold** and _slanted_ words\n\n'.repeat(2000);
  const table = `| a | b |\n|---|---|\n${'| **x** | y |\n'.repeat(100)}`;
  for (const text of [pointers, prose, table]) expect(parseMarkdown(text)?.length).toBeGreaterThan(0);
});

test('nested lists and brackets are read', () => {
  const list = Array.from({ length: 60 }, (_, level) => `${'  '.repeat(level)}- a`).join('\n');
  expect(parseMarkdown(list)?.[0]?.type).toBe('list');
  expect(parseMarkdown('['.repeat(5000))).not.toBeNull();
});
