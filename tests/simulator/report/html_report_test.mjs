// The HTML reports in Chromium, opened from disk without a network. Needs the program ($BALEEN, or the release build) and the
// packages of tests/web.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';

const kRepository = dirname(dirname(dirname(dirname(fileURLToPath(import.meta.url)))));
const kBaleen = process.env.BALEEN ?? join(kRepository, 'build', 'release', 'src', 'app', 'baleen');
const kTestMs = 60_000;
const { chromium } = createRequire(join(kRepository, 'tests', 'web', 'package.json'))('playwright-core');

/** Decoding, drafts on a pipeline with micro-batches, prefill, a CPU-sized model, and one that does not fit. */
const kSteps = {
  decode: ['flash', '--num-devices', '4', '--tp', '4', '--decode', '--context-length', '8192'],
  pipeline: ['pro', '--device', 'gb300', '--num-devices', '16', '--tp', '4', '--pp', '2', '--dbo', '--decode',
    '--num-queries', '64', '--num-mtp-tokens', '2', '--context-length', '65536'],
  prefill: ['flash', '--num-devices', '4', '--query-length', '8192', '--num-queries', '4'],
  tiny: ['tiny-flash', '--decode', '--context-length', '100'],
  full: ['pro', '--num-devices', '2', '--tp', '2', '--decode', '--context-length', '8192'],
};
/** The pages of the other commands, and the options that made them. */
const kOthers = {
  search: ['search', '--num-devices', '4', '--ttft', '2000', '--tpot', '50', '--top', '7'],
  serve: ['serve', '--num-devices', '4', '--tp', '4', '--rate', '4', '--requests', '200', '--max-queue', '50'],
  disaggregated: ['serve', '--num-devices', '4', '--tp', '4', '--rate', '40', '--requests', '200', '--disaggregate', '--num-mtp-tokens', '2'],
  train: ['train', '--device', 'h800', '--num-devices', '512', '--pp', '8', '--ep', '64'],
  validate: ['validate'],
};
const kAll = [...Object.keys(kSteps), ...Object.keys(kOthers)];
const kWidths = [[400, 'dark'], [700, 'light'], [1000, 'light'], [1400, 'dark'], [2400, 'light']];
/** Digits before an exponent or a unit: an estimate is worth three. */
const digitsOf = (text) => text.replace(/^[-+]?0*\.?0*/, '').replace(/0*$/, '').replace(/\D/g, '').length;
const kPlots = ['roofline', 'throughput', 'cache-plot'];

let browser;
let folder;
const figures = {};

/** Status 1 is a deployment that does not fit: its report is written all the same. */
function simulate(options) {
  try {
    return execFileSync(kBaleen, ['simulate', ...options], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  } catch (error) {
    assert.equal(error.status, 1);
    return error.stdout;
  }
}
const fileOf = (name) => join(folder, `${name} & <report>.html`);

before(
  async () => {
    folder = mkdtempSync(join(tmpdir(), 'baleen-report-'));
    for (const [name, options] of Object.entries(kSteps))
      figures[name] = JSON.parse(simulate([...options, '--html', fileOf(name), '--json']));
    for (const [name, options] of Object.entries(kOthers))
      figures[name] = JSON.parse(simulate([...options, '--html', fileOf(name), '--json']));
    const executablePath = execFileSync('which', ['chromium'], { encoding: 'utf8' }).trim();
    browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
  },
  { timeout: kTestMs },
);
after(async () => {
  await browser?.close();
  if (folder) rmSync(folder, { recursive: true });
});

/** Loads the page once; it must stay quiet and ask for nothing but its own file. */
async function withPage(name, options, body) {
  const context = await browser.newContext({ offline: true, ...options });
  const page = await context.newPage();
  const trouble = [];
  const requests = [];
  page.on('console', (message) => trouble.push(message.text()));
  page.on('pageerror', (error) => trouble.push(error.message));
  page.on('request', (request) => requests.push(request.url()));
  const url = pathToFileURL(fileOf(name)).href;
  await page.goto(url);
  await body(page);
  assert.deepEqual(trouble, []);
  assert.deepEqual(requests.filter((it) => it !== 'data:,'), [url]);
  await context.close();
}

/** Rows of a table: what is shown, and the exact figures. */
const rowsOf = (page, id) =>
  page.locator(`#${id} tbody tr`).evaluateAll((rows) =>
    rows.map((row) => [...row.cells].map((cell) => ({ text: cell.textContent, value: Number(cell.dataset.value) }))),
  );

/** What of a page is wider than its place, and its colours. */
async function expectNothingOverflows(page, width, colorScheme) {
  const [across, ink, paper, cut] = await page.evaluate(() => {
    const { color, backgroundColor } = getComputedStyle(document.body);
    const brightness = (it) => it.match(/\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0);
    const wider = [...document.querySelectorAll('main *:not(svg *)')].filter((it) => {
      if (it.clientWidth === 0 || it.scrollWidth <= it.clientWidth + 1) return false;
      return !['auto', 'scroll'].includes(getComputedStyle(it).overflowX);
    });
    return [
      document.documentElement.scrollWidth, brightness(color), brightness(backgroundColor),
      wider.map((it) => `${it.tagName} ${it.className}: ${it.textContent.slice(0, 60)}`),
    ];
  });
  assert.deepEqual(cut, [], `${width}: wider than its place, and cannot be scrolled`);
  assert.ok(across <= width, `${width}: ${across} pixels`);
  assert.ok(colorScheme === 'dark' ? ink > paper + 300 : paper > ink + 300, `${width}: ${ink} on ${paper}`);
}

/** Where words and marks of every drawing of a page are, in pixels. */
const drawingsOf = (page) =>
  page.locator('figure svg').evaluateAll((all) => {
    const box = (it) => {
      const { left, top, right, bottom } = it.getBoundingClientRect();
      return { left, top, right, bottom, text: it.textContent };
    };
    return all.map((svg) => ({
      name: svg.getAttribute('aria-label'),
      own: box(svg),
      frame: [...svg.querySelectorAll('.frame')].map(box)[0],
      words: [...svg.querySelectorAll('text')].map(box),
      marks: [...svg.querySelectorAll('circle, rect.piece, polyline')].map(box),
      points: [...svg.querySelectorAll('circle')].map(box).map(({ left, top, right, bottom }) => {
        const [x, y] = [(left + right) / 2, (top + bottom) / 2];
        return { left: x, right: x, top: y, bottom: y };
      }),
    }));
  });

const inside = (outer, it) =>
  it.left >= outer.left - 1 && it.right <= outer.right + 1 &&
  it.top >= outer.top - 1 && it.bottom <= outer.bottom + 1;

/** Boxes of glyphs reach above and below what is inked. */
const kEmpty = 3;
const overlap = (a, b) =>
  a.left < b.right && b.left < a.right &&
  a.top + kEmpty < b.bottom - kEmpty && b.top + kEmpty < a.bottom - kEmpty;

/** No word is cut or overlaps another; no mark is cut; no point lies outside the axes. */
async function expectDrawingsCanBeRead(page, width) {
  const drawings = await drawingsOf(page);
  assert.ok(drawings.length >= 1);
  for (const { name, own, frame, words, marks, points } of drawings) {
    assert.ok(name, 'a drawing without a name');
    const what = `${width}: ${name}`;
    assert.ok(words.length >= 4, `${what}: ${words.length} words`);
    for (const word of words) assert.ok(inside(own, word), `${what}: "${word.text}" is cut`);
    for (const mark of marks) assert.ok(inside(own, mark), `${what}: a mark is cut: ${mark.text}`);
    for (const point of frame ? points : [])
      assert.ok(inside(frame, point), `${what}: a point outside the axes`);
    words.forEach((a, i) => {
      for (const b of words.slice(i + 1))
        assert.ok(!overlap(a, b), `${what}: "${a.text}" overlaps "${b.text}"`);
    });
  }
}

for (const name of kAll) {
  test(`${name}: the page says what made it`, { timeout: kTestMs }, () =>
    withPage(name, {}, async (page) => {
      const [command, revision] = await page.locator('footer code').allTextContents();
      const options = kSteps[name] ?? kOthers[name];
      assert.ok(command.startsWith(`baleen simulate ${options.join(' ')} --html '`), command);
      assert.match(revision, /^([0-9a-f]{12}(-dirty)?|unknown)$/);
    }));

  const kTitle = `${name}: at every width words can be read, marks lie within the axes, nothing overflows`;
  test(kTitle, { timeout: kTestMs }, () =>
    withPage(name, {}, async (page) => {
      for (const [width, colorScheme] of kWidths) {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height: 900 });
        await expectNothingOverflows(page, width, colorScheme);
        await expectDrawingsCanBeRead(page, width);
      }
    }));
}

for (const name of Object.keys(kSteps)) {
  test(`${name}: bars and tables are those of --json`, { timeout: kTestMs }, () =>
    withPage(name, { viewport: { width: 1400, height: 900 } }, async (page) => {
      const { operations, memory, fits } = figures[name];
      assert.equal(await page.locator('#operations-chart g.bar').count(), operations.length);
      assert.equal(await page.locator('#memory-chart g.bar').count(), memory.length);
      assert.equal(await page.locator('[role=alert]').count(), fits ? 0 : 1);
      for (const plot of kPlots)
        assert.ok((await page.locator(`#${plot} :is(circle, polyline)`).count()) >= (fits ? 4 : 2), plot);
      const rows = await rowsOf(page, 'operations');
      assert.deepEqual(
        rows.map(([label, total, , calls, , bound, flops, bytes]) => ({
          name: label.text, calls: calls.value, seconds: total.value, bound: bound.text, flops: flops.value, bytes: bytes.value,
        })),
        operations,
      );
      rows.forEach(([, total, mean, calls, , , gflop, mb], i) => {
        const { seconds, flops, bytes } = operations[i];
        assert.ok(digitsOf(total.text) <= 3 && Math.abs(Number(total.text) / (1e6 * seconds) - 1) < 0.0051, total.text);
        assert.equal(calls.text, String(operations[i].calls));
        assert.ok(digitsOf(mean.text) <= 3 && Math.abs((Number(mean.text) * operations[i].calls) / (1e6 * seconds) - 1) < 0.0051);
        assert.ok(Math.abs(Number(gflop.text) - 1e-9 * flops) < 0.00051);
        assert.ok(Math.abs(Number(mb.text) - 1e-6 * bytes) < 0.00051);
      });
      const parts = await rowsOf(page, 'memory');
      memory.forEach(({ bytes, total }, stage) => {
        assert.deepEqual(
          parts.map((row) => row[stage + 1].value),
          [...Object.values(bytes), total, figures[name].device_memory_bytes],
        );
      });
    }));
}

test('search: the front and the ranking are those of --json', { timeout: kTestMs }, () =>
  withPage('search', {}, async (page) => {
    const { ranked, pareto } = figures.search;
    assert.equal(ranked.length, 7);
    for (const [id, list] of [['ranked', ranked], ['pareto', pareto]]) {
      assert.deepEqual(
        (await rowsOf(page, id)).map((row) => row.slice(1).map((cell) => cell.value)),
        list.map((it) => [it.tokens_per_second_per_device, it.tokens_per_second_per_user, it.ttft_seconds, it.tpot_seconds,
          it.concurrency, it.num_mtp_tokens, it.memory_bytes]),
      );
    }
    assert.equal(await page.locator('#pareto-plot circle').count(), pareto.length);
  }));

test('serve: latencies are those of --json', { timeout: kTestMs }, () =>
  withPage('serve', {}, async (page) => {
    const { group } = figures.serve;
    const times = [group.queue, group.time_to_first_token, group.end_to_end, group.time_per_output_token, group.time_between_tokens];
    assert.deepEqual(
      (await rowsOf(page, 'latency')).map((row) => row.slice(1).map((cell) => cell.value)),
      times.map(({ mean, p50, p90, p99 }) => [mean, p50, p90, p99]),
    );
    for (const row of await rowsOf(page, 'latency'))
      for (const cell of row.slice(1)) assert.ok(digitsOf(cell.text) <= 3, cell.text);
  }));

test('train: parts of a step and of memory are those of --json', { timeout: kTestMs }, () =>
  withPage('train', {}, async (page) => {
    const it = figures.train;
    assert.deepEqual(
      (await rowsOf(page, 'parts')).map((row) => row[1].value),
      [it.forward_seconds, it.backward_seconds, it.recompute_seconds, it.bubble_seconds, it.gradient_seconds, it.optimiser_seconds],
    );
    assert.deepEqual(
      (await rowsOf(page, 'memory')).map((row) => row[1].value),
      [...Object.values(it.memory), it.memory_bytes, it.device_memory_bytes],
    );
  }));

test('validate: every row is that of --json', { timeout: kTestMs }, () =>
  withPage('validate', {}, async (page) => {
    const rows = await rowsOf(page, 'rows');
    assert.deepEqual(
      rows.map((row) => [row[0].text, row[3].value, row[4].value, row[5].value]),
      figures.validate.rows.map((it) => [it.title, it.published, it.predicted, it.error]),
    );
    assert.equal(await page.locator('#errors g.bar').count(), rows.length);
    assert.ok((await page.locator('#sources tbody tr').count()) > 3);
  }));

test('columns sort by figures, and by words', { timeout: kTestMs }, () =>
  withPage('decode', {}, async (page) => {
    const column = async (index) => (await rowsOf(page, 'operations')).map((row) => row[index]);
    await page.locator('#operations').getByRole('button', { name: 'calls' }).click();
    let calls = (await column(3)).map((cell) => cell.value);
    assert.deepEqual(calls, [...calls].sort((a, b) => b - a));
    await page.locator('#operations').getByRole('button', { name: 'calls' }).click();
    calls = (await column(3)).map((cell) => cell.value);
    assert.deepEqual(calls, [...calls].sort((a, b) => a - b));
    await page.locator('#operations').getByRole('button', { name: 'operation' }).click();
    const names = (await column(0)).map((cell) => cell.text);
    assert.deepEqual(names, [...names].sort((a, b) => a.localeCompare(b)));
  }));

test('nothing is lost without the script', { timeout: kTestMs }, () =>
  withPage('decode', { javaScriptEnabled: false }, async (page) => {
    assert.ok((await page.locator('#operations tbody tr').count()) > 10);
    assert.ok(await page.locator('#roofline svg').isVisible());
  }));
