import { Marked, type Token } from 'marked';
import { expect, test } from 'vitest';
import { isMath, kMathExtensions } from '../../src/markdown/math_tokens';

const parser = new Marked({ gfm: true, extensions: kMathExtensions });

/** All formulas in `text`, "block" ones in double brackets, and the text of all code. */
function found(text: string): { math: string[]; code: string[] } {
  const result = { math: [] as string[], code: [] as string[] };
  parser.walkTokens(parser.lexer(text), (token: Token) => {
    if (isMath(token)) result.math.push(token.display ? `[[${token.source}]]` : token.source);
    if (token.type === 'code' || token.type === 'codespan') result.code.push(token.text as string);
  });
  return result;
}

test.each([
  ['\\(a^2\\)', ['a^2']],
  ['so \\(a_1 * b_2 * c\\) and \\( x \\)', ['a_1 * b_2 * c', 'x']],
  ['\\[\nx = \\frac{1}{2}\n\\]', ['[[x = \\frac{1}{2}]]']],
  ['$$\na\\\\b\n$$', ['[[a\\\\b]]']],
  ['a $$x$$ b', ['[[x]]']],
  ['Thus\n\\[ x \\]\nholds', ['[[x]]']],
  ['- item\n  \\[ y \\]\n- \\(z\\)', ['[[y]]', 'z']],
  ['| a |\n|---|\n| \\(x_1\\) |', ['x_1']],
  ['**bold \\(q\\)**', ['q']],
  ['$x$ and $y+1$, or $\\alpha$.', ['x', 'y+1', '\\alpha']],
  ['$5x + 2$', ['5x + 2']],
])('%j', (text, math) => {
  expect(found(text).math).toEqual(math);
});

test.each([
  'It costs $5 and $10.',
  'From $5-$10, or $3/$4',
  'US$5 or 6$ in all',
  '$5 or so for you$ then',
  '$1,000 dollars$',
  'a $ b $ c',
  'an escaped \\$x\\$',
  '$HOME/bin:$PATH',
  'open \\(never closed',
  '\\[ neither',
  '\\\\(not math\\\\)',
  '$$',
  '$$$$',
])('%j has no formula', (text) => {
  expect(found(text).math).toEqual([]);
});

test('code stays as it is', () => {
  const fence = '```sh\necho $HOME $$ \\(x\\)\n\\[ y \\]\n```';
  expect(found(fence)).toEqual({ math: [], code: ['echo $HOME $$ \\(x\\)\n\\[ y \\]'] });
  expect(found('`$a$ \\(b\\)`')).toEqual({ math: [], code: ['$a$ \\(b\\)'] });
  expect(found('from $A `x$` to `$B`')).toEqual({ math: [], code: ['x$', '$B'] });
  expect(found('    \\[ indented \\]')).toEqual({ math: [], code: ['\\[ indented \\]'] });
});

test('markdown around formulas keeps its meaning', () => {
  const kinds = (text: string) => parser.lexer(text).map(({ type }) => type);
  expect(kinds('# \\(x\\)\n\ntext\n\n$$x$$\n\n- a')).toEqual([
    'heading',
    'paragraph',
    'space',
    'math',
    'list',
  ]);
  const [paragraph] = parser.lexer('a \\* b \\_ \\# *c*');
  expect(paragraph && 'tokens' in paragraph && paragraph.tokens?.map(({ type }) => type)).toContain('em');
});

test('long hostile text is read in bounded time and depth', () => {
  for (const text of ['$'.repeat(5000), '\\('.repeat(5000), '$a '.repeat(5000), '\\[\n'.repeat(2000)])
    expect(found(text).math.length).toBeLessThan(5001);
});
