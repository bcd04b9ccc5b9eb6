import { expect, test } from 'vitest';
import { isSafeLink } from '../../src/markdown/safe_link';

test('links that lead to pages and mail', () => {
  for (const href of ['https://example.com/a?b#c', 'HTTP://EXAMPLE.COM', 'mailto:someone@example.com']) {
    expect(isSafeLink(href)).toBe(true);
  }
});

test('nothing that runs, and nothing on this server', () => {
  const bad = [
    'javascript:alert(1)',
    ' JaVaScRiPt:alert(1)',
    'java\nscript:alert(1)',
    'data:text/html,x',
    'blob:x',
  ];
  for (const href of [...bad, 'file:///etc/passwd', '/v1/models', 'stats', '#', '', '//example.com']) {
    expect(isSafeLink(href)).toBe(false);
  }
});
