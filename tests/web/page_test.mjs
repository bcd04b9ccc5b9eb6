// The page in Chromium, against the server with the bundled model: `npm test` here, after a release build.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { kTestMs, pageUnderTest, settled, until } from './page_under_test.mjs';
import { startServer } from './server_process.mjs';
import { ChatPage } from './chat_page.mjs';

const kStory = 'Tell me a story about a fox who finds a lantern.';
/** Longer than a page of the cache, so that the tree keeps it. */
const kLongMessage = `Tell me a story. ${'The fox walked by the brook and the owl sang to the moon. '.repeat(40)}`;

const kTool = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'The weather, now.',
    parameters: {
      type: 'object',
      properties: { unit: { type: 'string', enum: ['celsius', 'fahrenheit'] } },
      required: ['unit'],
      additionalProperties: false,
    },
  },
};

const shared = pageUnderTest();
const { heldTest, pageTest } = shared;

const kKind = {
  type: 'object',
  properties: { kind: { enum: ['fox', 'owl'] } },
  required: ['kind'],
  additionalProperties: false,
};
/** Events of a stream: some words of a reply. */
const kFew = 12;

heldTest(
  'a message is sent with Enter, and the reply streams in with its figures',
  {},
  async (chat, held) => {
    await chat.entry.press('Shift+Enter');
    await settled(async () => assert.equal(await chat.entry.inputValue(), '\n'));
    await chat.say(kStory);
    const reply = await held.nextReply();
    await chat.page.getByLabel('Waiting for the first token').waitFor();
    const shown = () =>
      chat.page
        .locator('.reply > .markdown')
        .innerText({ timeout: 100 })
        .catch(() => '');
    let length = 0;
    for (let step = 0; step < 3; step += 1) {
      reply.release(kFew);
      const text = await until(shown, (now) => now.length > length, `the text grows in step ${step}`);
      length = text.length;
    }
    reply.release(Infinity);
    await chat.replied();
    const figures = await chat.replies
      .last()
      .getByRole('list', { name: 'Figures of this reply' })
      .innerText();
    for (const part of [/\d+ tokens/, /tokens\/s/, /first after/, /prompt \d+, \d+ cached/])
      assert.match(figures, part);

    const [request] = chat.requests;
    assert.deepEqual(request.messages, [{ role: 'user', content: kStory }]);
    assert.equal(request.stream, true);
    assert.deepEqual(request.thinking, { type: 'disabled' });
  },
);

heldTest('Escape stops a reply, and the server goes on answering', {}, async (chat, held) => {
  await chat.withSettings((panel) => panel.getByText('Max', { exact: true }).click());
  await chat.say('Tell me a very long story about a whale.');
  await chat.button('Stop').waitFor();
  (await held.nextReply()).release(kFew);
  await chat.replies.locator('.markdown').first().waitFor();
  await chat.page.keyboard.press('Escape');
  await chat.replied();
  await chat.page.getByText('Stopped', { exact: true }).waitFor();
  await chat.setLongestReply(8);
  await chat.say('And another.');
  (await held.nextReply()).release(Infinity);
  await chat.replied();
  await chat.page.getByText('Cut at the longest reply').waitFor();
});

pageTest('a reply is regenerated, a message edited, from the same history', {}, async (chat) => {
  await chat.setLongestReply(24);
  await chat.ask(kStory);
  await chat.button('Regenerate').click();
  await chat.button('Send').waitFor();
  await chat.replied();
  await settled(async () => assert.equal(await chat.replies.count(), 1));
  assert.deepEqual(chat.requests[1], chat.requests[0]);
  await chat.page.getByText('2 / 2').waitFor();

  await chat.page.getByText(kStory).last().hover();
  await chat.button('Edit this message').click();
  const editor = chat.page.getByRole('textbox', { name: 'Edit your message' });
  await editor.fill('Tell me about an owl.');
  await editor.press('Enter');
  await chat.button('Send').waitFor();
  await chat.replied();
  await settled(async () => assert.equal(await chat.replies.count(), 1));
  assert.deepEqual(chat.requests[2].messages, [{ role: 'user', content: 'Tell me about an owl.' }]);
});

pageTest(
  'a reload keeps conversations and settings; they are renamed, exported, deleted',
  {},
  async (chat) => {
    await chat.setLongestReply(24);
    await chat.ask(kStory);
    const said = await chat.answer.innerText();
    await chat.page.reload();
    await settled(async () => assert.equal(await chat.answer.innerText(), said));
    await chat.ask('Go on.');
    assert.equal(chat.requests[1].max_tokens, 24);
    assert.deepEqual(
      chat.requests[1].messages.map(({ role }) => role),
      ['user', 'assistant', 'user'],
    );

    const list = chat.page.getByRole('complementary', { name: 'Conversations' });
    const [title] = await chat.titles;
    await chat.chooseOf(title, 'Rename');
    await list.getByRole('textbox', { name: 'Title' }).fill('The fox');
    await chat.page.keyboard.press('Enter');
    await list.getByRole('button', { name: 'The fox', exact: true }).waitFor();

    const [download] = await Promise.all([
      chat.page.waitForEvent('download'),
      chat.chooseOf('The fox', 'Export'),
    ]);
    assert.equal(download.suggestedFilename(), 'The-fox.json');

    await chat.button('New conversation').first().click();
    await settled(async () => assert.equal(await chat.replies.count(), 0));
    await chat.chooseOf('The fox', 'Delete');
    await chat.button('Delete').click();
    await settled(async () => assert.equal(await list.getByText('The fox').count(), 0));
  },
);

heldTest('thinking is open while it streams and folded when the answer begins', {}, async (chat, held) => {
  await chat.withSettings((panel) => panel.getByText('High', { exact: true }).click());
  await chat.say(kStory);
  const reply = await held.nextReply();
  reply.release(kFew);
  await chat.page.locator('.thinking-title[aria-expanded="true"]').waitFor();
  reply.release(Infinity);
  await chat.replied();
  const title = chat.page.locator('.thinking-title');
  await settled(async () => assert.match(await title.innerText(), /Thought\s+for \d/));
  assert.equal(await title.getAttribute('aria-expanded'), 'false');
  await settled(async () => assert.equal(await chat.page.locator('.thinking-text').count(), 0));
  await title.click();
  await settled(async () => assert.ok((await chat.page.locator('.thinking-text').innerText()).length > 0));
  assert.deepEqual(chat.requests[0].thinking, { type: 'enabled' });
  assert.equal(chat.requests[0].reasoning_effort, 'high');
});

pageTest('a forced tool call is a card; its result goes back and the model goes on', {}, async (chat) => {
  await chat.setLongestReply(200);
  await chat.withSettings(async (panel) => {
    await panel.getByText('Offer tools to the model').click();
    await panel.getByLabel('Tool declarations, JSON').fill('[{');
    await panel.getByText(/No tools are sent/).waitFor();
    await panel.getByLabel('Tool declarations, JSON').fill(JSON.stringify([kTool]));
    await panel.getByLabel('Use').selectOption('required');
  });
  await chat.ask('What is the weather?');
  const card = chat.page.getByRole('region', { name: 'Tool call get_weather' });
  await card.waitFor();
  const text = await card.locator('.call-arguments').innerText();
  assert.ok('unit' in JSON.parse(text), text);
  assert.match(text, /\{\n {2}"/, 'laid out over lines');

  await chat.withSettings((panel) => panel.getByLabel('Use').selectOption('auto'));
  await card.getByLabel('Result').fill('21 degrees and clear');
  await chat.button('Continue').click();
  await chat.replies.nth(1).waitFor();
  await chat.replied();
  const roles = chat.requests[1].messages.map(({ role }) => role);
  assert.deepEqual(roles, ['user', 'assistant', 'tool']);
  assert.equal(chat.requests[1].messages[2].content, '21 degrees and clear');
  assert.equal(chat.requests[1].messages[2].tool_call_id, chat.requests[1].messages[1].tool_calls[0].id);
});

pageTest('the address names the view: typed, from a link, with Back and Forward', {}, async (chat) => {
  const { page } = chat;
  const machine = page.getByRole('main', { name: 'Machine' });
  const isChat = () => chat.entry.waitFor();
  await page.evaluate(() => {
    location.hash = '#machine';
  });
  await machine.waitFor();
  await page.goBack();
  await isChat();
  await page.goForward();
  await machine.waitFor();
  await chat.button('Chat').click();
  await isChat();
  assert.equal(await page.evaluate(() => location.hash), '');
  await page.goBack();
  await machine.waitFor();
  for (const unknown of ['#Machine', '#machine?x', '#', '#%', '#<b>']) {
    await page.evaluate((hash) => {
      location.hash = hash;
    }, unknown);
    await isChat();
  }
  await page.goto(`${shared.server.url}/?from=here#machine`);
  await machine.waitFor();
  await chat.button('Chat').click();
  await isChat();
  assert.match(page.url(), /\?from=here$/);
});

pageTest('stop strings, penalties and a schema are sent, and the server holds to them', {}, async (chat) => {
  await chat.setLongestReply(60);
  await chat.withSettings(async (panel) => {
    for (const [label, value] of [
      ['Presence penalty', '0.5'],
      ['Frequency penalty', '-0.25'],
      ['Repetition penalty', '1.1'],
    ]) {
      await panel.getByLabel(label, { exact: true }).fill(value);
      await panel.getByLabel(label, { exact: true }).press('Tab');
    }
    await panel.getByLabel('Stop strings').fill('the\n\\n');
  });
  await chat.ask(kStory);
  const [first] = chat.requests;
  assert.deepEqual(
    [first.presence_penalty, first.frequency_penalty, first.repetition_penalty, first.stop],
    [0.5, -0.25, 1.1, ['the', '\n']],
  );
  assert.ok(!(await chat.answer.innerText()).includes('the'));

  await chat.withSettings(async (panel) => {
    await panel.getByRole('button', { name: 'Reset' }).click();
    await panel.getByText('Reply in JSON, as this schema says').click();
    await panel.getByLabel('JSON schema of replies').fill('{');
    await panel.getByText(/No schema is sent/).waitFor();
    await panel.getByLabel('JSON schema of replies').fill(JSON.stringify(kKind));
  });
  await chat.setLongestReply(60);
  await chat.ask('What is it?');
  assert.ok(['fox', 'owl'].includes(JSON.parse(await chat.answer.innerText()).kind));
  assert.equal(chat.requests.at(-1).stop, undefined, 'reset with all of sampling');
});

pageTest('the machine shows pools, tree and expert load', {}, async (chat) => {
  await chat.setLongestReply(24);
  await chat.ask(kLongMessage);
  await chat.button('Machine').click();
  const { page } = chat;
  await page.getByRole('img', { name: /^Pages: / }).waitFor();
  for (const pool of ['Pages', 'Window pages', 'State slots']) {
    const words = await page.getByRole('img', { name: new RegExp(`^${pool}: `) }).getAttribute('aria-label');
    const [used, cached, free, total] = words.replaceAll(',', '').match(/\d+/g).map(Number);
    assert.ok(total > 0 && used + cached + free === total, words);
  }

  await page.getByRole('tree', { name: /^Radix tree of [1-9]/ }).waitFor();
  await page.locator('.node').first().hover();
  await page.getByText(/node \d+ · [\d,]+ tokens/).waitFor();

  const heat = page.locator('.heat canvas');
  await heat.hover();
  await page.getByText(/layer \d+, expert \d+: [\d,]+ tokens/).waitFor();
  const drawn = await heat.evaluate((canvas) => {
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    return data.some((value, index) => index % 4 === 3 && value > 100);
  });
  assert.ok(drawn, 'the heat map has colour');
  await page.getByRole('rowheader', { name: 'linear', exact: true }).waitFor();

  // Two looks make a rate.
  await page.locator('.sparkline polyline').first().waitFor({ state: 'attached' });
});

test('the machine shows the loads of ranks before and after', { timeout: kTestMs }, async () => {
  const balance = '--balance-experts --balance-first 4 --balance-interval 4 --balance-gain 0'.split(' ');
  const server = await startServer(0, ['--ep', '2', '--threads', '2', ...balance]);
  try {
    const chat = await ChatPage.open(shared.browser, server.url);
    await chat.setLongestReply(24);
    await chat.ask(kStory);
    await chat.button('Machine').click();
    const layers = chat.page.getByRole('list', { name: 'Loads of the ranks by layer, before and after' });
    await layers.waitFor();
    assert.equal(await layers.getByRole('listitem').count(), 7, 'six layers and the MTP block');
    const words = await layers
      .getByRole('img', { name: /^after: / })
      .first()
      .getAttribute('aria-label');
    assert.match(words, /^after: [\d,]+, [\d,]+ tokens$/);
    assert.equal(await layers.locator('.rank-bars').first().locator('rect').count(), 2);
    await chat.page.getByText(/mean over largest load of ranks: \d+% to \d+% over layers/).waitFor();
    await chat.page.getByText(/[1-9]\d* experts moved/).waitFor();
    await chat.close();
  } finally {
    await server.kill();
  }
});

pageTest('the machine can be read with the keyboard alone', {}, async (chat) => {
  await chat.setLongestReply(24);
  await chat.ask(kLongMessage);
  const { page } = chat;
  await page.keyboard.press('Alt+KeyM');
  const node = page.getByRole('treeitem').first();
  await node.waitFor();
  const machine = page.getByRole('main', { name: 'Machine' });
  await machine.focus();
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement?.getAttribute('role')), 'treeitem');
  await page.getByText(/node \d+ · [\d,]+ tokens/).waitFor();
  const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  assert.equal(outline, 'solid', 'the focus can be seen');
  await page.locator('.heat canvas').focus();
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('ArrowRight');
  await page.getByText(/layer 0, expert 1: [\d,]+ tokens/).waitFor();
});

pageTest('a page that is opened later shows the rates of before', {}, async (early) => {
  const rows = () =>
    early.page.evaluate(async () => (await (await fetch('/stats?history=1')).json()).history.rows);
  await until(rows, (all) => all.length >= 4, 'the server has noted its counters');
  const late = await early.openTab();
  const first = late.page.waitForResponse(/\/stats/);
  await late.page.keyboard.press('Alt+KeyM');
  assert.match((await first).url(), /history=1$/);
  const line = late.page.locator('.sparkline polyline').first();
  await line.waitFor({ state: 'attached' });
  const points = (await line.getAttribute('points')).split(' ');
  assert.ok(points.length >= 3, `${points.length} points at the first look`);
});

pageTest('licences of what the page contains are a link away', {}, async (chat) => {
  await chat.button('Settings').click();
  const link = chat.page.getByRole('link', { name: 'Third-party notices' });
  const reply = await chat.page.request.get(`${shared.server.url}${await link.getAttribute('href')}`);
  assert.equal(reply.status(), 200);
  assert.match(reply.headers()['content-type'], /^text\/plain/);
  const text = await reply.text();
  for (const name of [
    'preact',
    '@preact/signals',
    'marked',
    'temml',
    'highlight.js',
    'lowlight',
    'pdfjs-dist',
  ])
    assert.ok(text.includes(`\n${name} `), name);
});

pageTest('code that is wider than the page is scrolled with the keyboard', {}, async (chat) => {
  const block = `\`\`\`cpp\nint x = ${'1 + '.repeat(100)}1;\n\`\`\``;
  const picker = chat.page.locator('.list input[type=file]');
  const figures = { firstToken: null, reasoning: null, whole: null, usage: null };
  const message = { role: 'assistant', text: block, ending: 'stop', figures };
  const text = JSON.stringify({ title: 'Code', messages: [{ role: 'user', text: 'x' }, message] });
  await picker.setInputFiles({ name: 'c.json', mimeType: 'application/json', buffer: Buffer.from(text) });
  const code = chat.page.getByRole('group', { name: 'Code, cpp' });
  await code.focus();
  assert.equal(
    await code.evaluate((one) => document.activeElement === one && one.scrollWidth > one.clientWidth),
    true,
  );
  await settled(async () => assert.ok((await code.locator('.code-type').count()) > 0, 'it has colours'));
  await chat.page.keyboard.press('ArrowRight');
  await until(
    () => code.evaluate((one) => one.scrollLeft),
    (left) => left > 0,
    'the code is scrolled',
  );
});

test(
  'light and dark follow the system until one is chosen, and the choice is kept',
  { timeout: kTestMs },
  async () => {
    const chat = await shared.open({ colorScheme: 'light' });
    const light = await chat.background();
    await chat.button('Dark theme').click();
    const dark = await chat.background();
    assert.notEqual(dark, light);
    await chat.page.reload();
    await settled(async () => assert.equal(await chat.background(), dark));
    await chat.button('Light theme').click();
    await chat.page.emulateMedia({ colorScheme: 'dark' });
    await chat.button('Light theme').waitFor();
    await settled(async () => assert.equal(await chat.background(), dark));
    await chat.close();
  },
);

test('what a model writes is never run, and loads nothing', { timeout: kTestMs }, async () => {
  const text = [
    '<script>window.ran = 1</script><img src=x onerror="window.ran = 2">',
    '![picture](http://192.0.2.1/a.png) [run](javascript:window.ran=3) [go](https://example.com)',
    '`<b>code</b>` **bold** <iframe src="http://192.0.2.1/"></iframe>',
  ].join('\n\n');
  const reply = {
    role: 'assistant',
    reasoning: '',
    text,
    calls: [],
    ending: 'stop',
    failure: null,
    figures: { firstToken: null, reasoning: null, whole: null, usage: null },
  };
  // As older versions of the page stored it, all conversations in one record.
  const messages = [{ role: 'user', text: '<i>hi</i>' }, reply];
  const storage = { 'baleen.conversations': [{ id: 'c', title: 'Hostile', changed: 1, messages }] };
  const chat = await shared.open({ storage });
  await chat.answer.waitFor();
  await settled(async () =>
    assert.equal(await chat.answer.locator('script, img, iframe, b, [onerror]').count(), 0),
  );
  await settled(async () => assert.equal(await chat.answer.locator('strong').innerText(), 'bold'));
  const links = await chat.answer.locator('a').evaluateAll((all) => all.map((link) => [link.href, link.rel]));
  assert.deepEqual(
    links.map(([href]) => href),
    ['http://192.0.2.1/a.png', 'https://example.com/'],
  );
  assert.ok(links.every(([, rel]) => rel.includes('noopener')));
  assert.equal(await chat.page.evaluate(() => window.ran), undefined);
  await chat.close();
});

test(
  'on a narrow screen no word is broken, and a title has the line to itself',
  { timeout: kTestMs },
  async () => {
    const heads = ['Specification', 'Measurement', 'Configuration', 'Requirements'];
    const row = (cells) => `| ${cells.join(' | ')} |`;
    const table = [
      row(heads),
      row(heads.map(() => '---')),
      row(heads.map((head) => `${head.toLowerCase()} of it`)),
    ];
    const title = 'A title that is longer than the list of conversations is wide';
    const message = { role: 'assistant', text: table.join('\n'), ending: 'stop' };
    const messages = [{ role: 'user', text: 'x' }, message];
    const storage = { 'baleen.conversations': [{ id: 'c', title, changed: 1, messages }] };
    for (const width of [400, 1200]) {
      const chat = await shared.open({ storage, viewport: { width, height: 700 } });
      const cells = chat.answer.locator('th');
      await until(
        () => cells.count(),
        (count) => count === 4,
        'the table is there',
      );
      const lines = await cells.evaluateAll((all) =>
        all.map((cell) => {
          const range = document.createRange();
          range.selectNodeContents(cell);
          return new Set([...range.getClientRects()].map(({ top }) => top)).size;
        }),
      );
      assert.deepEqual(lines, [1, 1, 1, 1], `each heading is one word on one line at ${width} px`);
      if (width === 400) await chat.button('Conversations').click();
      const entry = chat.page.locator('.entry').first();
      await entry.hover();
      const share = await entry.evaluate((one) => {
        const buttons = [...one.querySelectorAll('.icon-button')];
        const taken = buttons.reduce((sum, button) => sum + button.getBoundingClientRect().width, 0);
        return taken / one.getBoundingClientRect().width;
      });
      assert.ok(share < 0.15, `buttons take ${Math.round(100 * share)}% of a title at ${width} px`);
      await chat.close();
    }
  },
);

test('a narrow screen has everything, and nothing sticks out', { timeout: kTestMs }, async () => {
  const chat = await shared.open({ viewport: { width: 360, height: 640 } });
  await chat.setLongestReply(24);
  await chat.ask(kStory);
  const sticksOut = () =>
    chat.page.evaluate(() =>
      [...document.querySelectorAll('body, .scroller, .machine')].some(
        (one) => one.scrollWidth > one.clientWidth,
      ),
    );
  assert.equal(await sticksOut(), false);
  await chat.button('Machine').click();
  await chat.page.getByRole('img', { name: /^Pages: / }).waitFor();
  assert.equal(await sticksOut(), false);
  await chat.button('Chat').click();
  await chat.button('Conversations').click();
  await chat.button('New conversation').first().click();
  await settled(async () =>
    assert.equal(await chat.page.getByRole('complementary', { name: 'Conversations' }).count(), 0),
  );
  await chat.close();
});

test('a refusal shows the sentence of the server once, at its reply', { timeout: kTestMs }, async () => {
  const chat = await shared.open();
  await chat.withSettings(async (panel) => {
    await panel.getByText('Offer tools to the model').click();
    await panel.getByLabel('Tool declarations, JSON').fill('[{"function": {"name": "f"}, "type": 3}]');
  });
  await chat.say('Hello');
  await chat.replied();
  const alerts = chat.page.getByRole('alert');
  await settled(async () => assert.equal(await alerts.count(), 1));
  const sentence = await alerts.innerText();
  assert.ok(sentence.length > 10);
  await settled(async () => assert.equal(await chat.page.getByText(sentence, { exact: true }).count(), 1));
  await chat.context.close(); // The browser writes the status 400 to its console.
});

test('a server that goes away is missed, and welcomed back', { timeout: kTestMs }, async () => {
  const chat = await shared.open();
  await chat.setLongestReply(24);
  await chat.ask(kStory);
  const { port } = shared.server;
  await shared.server.kill();
  await chat.say('Are you there?');
  const banner = chat.page.locator('.banner[role=alert]');
  await banner.getByText('The server does not answer.').waitFor();
  await chat.replies.last().getByText('The server does not answer.').waitFor();

  shared.server = await startServer(port);
  await banner.waitFor({ state: 'detached' });
  await chat.button('Retry').click();
  await chat.button('Send').waitFor();
  await chat.replied();
  await settled(async () => assert.ok((await chat.answer.innerText()).length > 0));
  assert.deepEqual(chat.foreign, []);
  await chat.context.close(); // Requests that found no server stand on its console.
});
