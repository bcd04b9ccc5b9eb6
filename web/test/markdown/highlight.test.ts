import { expect, test } from 'vitest';
import { highlight } from '../../src/markdown/highlight';

const joined = (code: string, language: string) =>
  highlight(code, language)
    .map(({ text }) => text)
    .join('');

test('runs together are the code, whatever it holds', () => {
  const hostile = '<script>alert(1)</script> &amp; </span><img src=x onerror=a> "\u202e\0\ud800';
  for (const language of ['cpp', 'python', 'js', 'html', 'json', 'cuda', 'nonsense', '', 'C++ title="x"'])
    expect(joined(hostile, language)).toBe(hostile);
});

test('keywords, strings and comments are told apart', () => {
  const kinds = highlight('int main() { return "x"; } // end', 'cpp').map(({ kinds: kind }) => kind);
  expect(kinds).toContain('code-string');
  expect(kinds).toContain('code-comment');
  expect(kinds.some((kind) => /code-(keyword|type)/.test(kind))).toBe(true);
});

test('kinds are class names of the page alone', () => {
  for (const code of ['<a onclick="x">', '@media (x) {}', 'def f(): pass', '{"a": 1}'])
    for (const { kinds } of highlight(code, 'xml'))
      expect(kinds).toMatch(/^(code-[\w-]+|\w+_|language-\w+| )*$/);
});

test('code without end is shown plain', () => {
  expect(highlight('x'.repeat(50_000), 'cpp')).toHaveLength(1);
});
