// Everything that comes from outside, in Chromium: shown as text, never run, nothing loaded.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { kTestMs, pageUnderTest, settled } from './page_under_test.mjs';

const shared = pageUnderTest();

/** Each would set `window.ran` or load something, if it were taken for more than text. */
const kPayloads = [
  '<script>window.ran=1</script>',
  '<img src=x onerror=window.ran=1>',
  '<svg/onload=window.ran=1>',
  '<iframe srcdoc="<script>parent.ran=1</script>"></iframe>',
  '<math><mtext><table><mglyph><style><img src=x onerror=window.ran=1>',
  '<a href="javascript:window.ran=1">x</a>',
  '"><script>window.ran=1</script>',
  "'-window.ran=1-'",
  '</code></pre><script>window.ran=1</script>',
  '</title></textarea><script>window.ran=1</script>',
  '<style>*{background:url(http://192.0.2.1/a)}</style>',
  '<link rel=stylesheet href=http://192.0.2.1/a.css>',
  '<meta http-equiv=refresh content="0;url=http://192.0.2.1/">',
  '<base href=http://192.0.2.1/>',
  '<form action=http://192.0.2.1/><button>x</button></form>',
  '[x](javascript:window.ran=1)',
  '[x](JaVaScRiPt:window.ran=1)',
  '[x](java\tscript:window.ran=1)',
  '[x](data:text/html,<script>parent.ran=1</script>)',
  '[x](vbscript:x "onmouseover=window.ran=1")',
  '[x](//192.0.2.1/a)',
  '![x](http://192.0.2.1/a.png)',
  '![x](data:image/svg+xml,<svg onload=window.ran=1>)',
  '<javascript:window.ran=1>',
  '[x]: javascript:window.ran=1\n\n[x]',
  '&lt;script&gt;window.ran=1&lt;/script&gt;',
  '&#60;img src=x onerror=window.ran=1&#62;',
  '{{constructor.constructor("window.ran=1")()}}',
  '\\(\\href{javascript:window.ran=1}{x}\\)',
  '\\(\\url{javascript:window.ran=1}\\)',
  '\\(\\includegraphics{http://192.0.2.1/a.png}\\)',
  '\\(\\htmlData{x=1}{y} \\class{panel}{z} \\id{app}{w} \\style{background:url(http://192.0.2.1/a)}{v}\\)',
  '\\(\\text{<img src=x onerror=window.ran=1>}\\)',
  '\\(\\color{red;background:url(http://192.0.2.1/a)}{x}\\)',
  '\\(\\def\\a{\\a\\a}\\a\\)',
  `\\(${'{'.repeat(3000)}x${'}'.repeat(3000)}\\)`,
  '\\(\\rule{9999999em}{9999999em}\\)',
  '$$<script>window.ran=1</script>$$',
  '$<img/src=x/onerror=window.ran=1>$',
  '```html\n<script>window.ran=1</script><img src=x onerror=window.ran=1>\n```',
  '```"><script>window.ran=1</script>\nx\n```',
  '```__proto__\nx\n```',
  '~~~constructor\n<b>\n~~~',
  '| <img src=x onerror=window.ran=1> |\n|---|\n| <script>window.ran=1</script> |',
  `${'>'.repeat(20_000)} deep`,
  '*a '.repeat(5000),
  `${'- '.repeat(500)}x`,
  '\u202e\u0000\ufeff\ud800 <b>x</b>',
];

const kFigures = { firstToken: null, reasoning: null, whole: null, usage: null };

/** A conversation that has `text` in every place that text can have. */
function everywhere(text, index) {
  const call = { id: text, name: text, arguments: text, result: text };
  const at = 1e12 + index;
  const turns = [
    { id: '1', parent: null, at, message: { role: 'user', text, files: [{ name: text, text }] } },
    {
      id: '2',
      parent: '1',
      at,
      message: {
        role: 'assistant',
        reasoning: text,
        text,
        calls: [call],
        ending: 'failed',
        failure: text,
        figures: kFigures,
      },
    },
  ];
  return { id: `p${index}`, title: text, changed: at, system: text, turns, leaf: '2' };
}

test(
  'what comes from outside is text: in messages, files, titles, calls, code and formulas',
  { timeout: kTestMs },
  async () => {
    const storage = Object.fromEntries(
      kPayloads.map((text, index) => [`baleen.conversation.p${index}`, everywhere(text, index)]),
    );
    const chat = await shared.open({ storage });
    const { page } = chat;
    await page
      .locator('.entry')
      .nth(kPayloads.length - 1)
      .waitFor();
    for (let index = 0; index < kPayloads.length; index += 1) {
      // Newest first.
      const entry = page.locator('.entry-title').nth(kPayloads.length - 1 - index);
      await entry.click();
      await page.locator('.thinking-title').click();
      await page.locator('.chips summary').click();
      const found = await page.evaluate(() => {
        const bad =
          'script, img, iframe, object, embed, link, meta, base, style, [onerror], [onload], [onmouseover]';
        const links = [...document.querySelectorAll('#app a')].map((link) => link.href);
        return {
          elements: [...document.querySelectorAll('#app *')]
            .filter((one) => one.matches(bad))
            .map((one) => one.outerHTML),
          links: links.filter((href) => !/^(https?|mailto):/.test(href)),
          ran: window.ran,
        };
      });
      assert.deepEqual(found, { elements: [], links: [], ran: undefined }, kPayloads[index]);
      const size = await page.locator('.messages').evaluate((one) => one.getBoundingClientRect().width);
      assert.ok(size < 1200, `${size} px wide: ${kPayloads[index].slice(0, 60)}`);
    }
    await settled(async () =>
      assert.equal(await page.locator('.said-text').innerText(), kPayloads.at(-1), 'not a character is lost'),
    );
    await chat.close(); // No error on the console, no request elsewhere.
  },
);

test(
  'formulas are elements of their own kind, and what cannot be read stays as it was written',
  { timeout: kTestMs },
  async () => {
    const text =
      'So \\(a_1^2 * b_1^2\\) costs $5 and $10.\n\n\\[ \\frac{1}{2} \\]\n\nbut \\(\\frac{\\) not, nor `\\(c\\)`.';
    const chat = await shared.open({ storage: { 'baleen.conversation.p0': everywhere(text, 0) } });
    const { answer } = chat;
    await answer.locator('math').first().waitFor();
    await settled(async () => assert.equal(await answer.locator('math').count(), 2));
    await settled(async () => assert.equal(await answer.locator('msubsup').count(), 2));
    await settled(async () =>
      assert.equal(await answer.locator('math[display="block"] mfrac').count(), 1),
    );
    await settled(async () =>
      assert.deepEqual(await answer.locator('code').allInnerTexts(), ['\\frac{', '\\(c\\)']),
    );
    await settled(async () => assert.match(await answer.innerText(), /costs \$5 and \$10\./));
    await settled(async () => assert.equal(await answer.locator('em').count(), 0));
    await chat.close();
  },
);
