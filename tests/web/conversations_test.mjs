// Conversations in Chromium: in two tabs, in versions, from files, by the hundred messages.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { kTestMs, pageUnderTest, settled } from './page_under_test.mjs';

const shared = pageUnderTest(280_000);
const { pageTest } = shared;

const kFigures = { firstToken: null, reasoning: null, whole: null, usage: null };
const userTurn = (id, parent, text) => ({ id, parent, at: 1e12, message: { role: 'user', text } });
const replyTurn = (id, parent, text, ending = 'stop') => ({
  id,
  parent,
  at: 1e12,
  message: { role: 'assistant', reasoning: '', text, calls: [], ending, failure: null, figures: kFigures },
});
const conversation = (id, title, turns) => ({
  id,
  title,
  changed: 1e12,
  system: null,
  turns,
  leaf: turns.at(-1).id,
});
const record = (one) => ({ [`baleen.conversation.${one.id}`]: one });

/** Until `read` gives what `holds`: a bounded number of looks. */
async function until(page, read, holds, what) {
  let value;
  for (let look = 0; look < 100; look += 1) {
    value = await read();
    if (holds(value)) return value;
    await page.waitForTimeout(100);
  }
  assert.fail(`${what}; last seen: ${JSON.stringify(value)}`);
}

pageTest('two tabs keep what each other wrote, and see it', {}, async (first) => {
  await first.setLongestReply(8);
  const second = await first.openTab();
  await first.ask('From the first tab');
  await second.button('New conversation').first().click();
  await second.ask('From the second tab');
  const both = (titles) =>
    ['From the first tab', 'From the second tab'].every((title) => titles.includes(title));
  await until(first.page, () => first.titles, both, 'the first tab lists both');
  await until(second.page, () => second.titles, both, 'the second tab lists both');
  await first.page.reload();
  await second.page.reload();
  await settled(async () => assert.ok(both(await first.titles), 'both survive both reloads'));
  await settled(async () => assert.ok(both(await second.titles)));

  // Deleted in one tab while the other one shows it: gone in both, for good.
  await second.page.getByRole('button', { name: 'From the first tab', exact: true }).click();
  await first.page.getByRole('listitem').filter({ hasText: 'From the first tab' }).hover();
  await first.button('Delete From the first tab').click();
  await first.button('Delete').click();
  const gone = (titles) => !titles.includes('From the first tab');
  await until(second.page, () => second.titles, gone, 'the deletion reaches the second tab');
  await second.ask('And more'); // In what is left.
  await first.page.reload();
  await second.page.reload();
  assert.ok(gone(await first.titles) && gone(await second.titles), 'it does not come back');
});

pageTest('a reply that streams in one tab grows in the other, which only reads', {}, async (writer) => {
  await writer.withSettings((panel) => panel.getByText('Max', { exact: true }).click());
  await writer.setLongestReply(3000);
  await writer.slowDown();
  await writer.say('Tell me a very long story about a whale.');
  await writer.replies.locator('.markdown').first().waitFor();
  const reader = await writer.openTab();
  await reader.page.getByText('Another tab of this browser receives this reply.').waitFor();
  const length = () =>
    reader.replies
      .last()
      .innerText()
      .then((text) => text.length);
  const before = await length();
  await until(reader.page, length, (now) => now > before, 'the text grows in the other tab');
  await reader.entry.fill('Me too');
  assert.ok(await reader.button('Send').isDisabled());
  await writer.page.keyboard.press('Escape');
  await writer.replied();
  await reader.replied();
  await until(
    reader.page,
    () => reader.button('Send').isDisabled(),
    (disabled) => !disabled,
    'it may send now',
  );
  await settled(async () =>
    assert.equal(await reader.replies.last().innerText(), await writer.replies.last().innerText()),
  );
});

test('a reply whose tab is gone is over after a while', { timeout: kTestMs }, async () => {
  const open = conversation('c', 'Open', [userTurn('1', null, 'hi'), replyTurn('2', '1', 'half a', null)]);
  const chat = await shared.open({ storage: record(open) });
  await chat.page.getByText('Another tab of this browser receives this reply.').waitFor();
  await chat.page.getByText('Stopped', { exact: true }).waitFor();
  await chat.close();
});

pageTest('versions of replies and messages stay, also over a reload', {}, async (chat) => {
  await chat.setLongestReply(8);
  await chat.ask('One');
  const first = await chat.answer.innerText();
  await chat.button('Regenerate').click();
  await chat.page.getByLabel('Version 2 of 2').waitFor();
  await chat.replied();
  await chat.button('Previous version').click();
  await chat.page.getByLabel('Version 1 of 2').waitFor();
  await settled(async () => assert.equal(await chat.answer.innerText(), first));
  await chat.ask('Two');

  await chat.page.getByText('One', { exact: true }).last().hover();
  await chat.button('Edit this message').first().click();
  await chat.page.getByRole('textbox', { name: 'Edit your message' }).fill('One, but other');
  await chat.page.keyboard.press('Enter');
  const versions = chat.page.getByRole('group', { name: 'Versions of this message' });
  await versions.getByLabel('Version 2 of 2').waitFor();
  await chat.replied();
  assert.deepEqual(chat.requests.at(-1).messages, [{ role: 'user', content: 'One, but other' }]);
  await chat.page.reload();
  await versions.getByRole('button', { name: 'Previous version' }).click();
  await chat.page.getByText('Two', { exact: true }).waitFor();
  await settled(async () => assert.equal(await chat.replies.count(), 2));
});

pageTest('a reply that was cut goes on where it ended', {}, async (chat) => {
  await chat.setLongestReply(6);
  await chat.ask('Tell me a story.');
  const begun = await chat.answer.innerText();
  await chat.button('Continue this reply').click();
  await until(
    chat.page,
    () => chat.answer.innerText(),
    (text) => text.length > begun.length,
    'the reply is longer',
  );
  await chat.replied();
  await settled(async () => assert.ok((await chat.answer.innerText()).startsWith(begun)));
  await settled(async () => assert.equal(await chat.replies.count(), 1));
  const last = chat.requests[1].messages.at(-1);
  assert.deepEqual([last.role, last.prefix], ['assistant', true]);
  await settled(async () => assert.match(await chat.replies.last().innerText(), /12 tokens/));
});

pageTest(
  'what was exported is imported as a new conversation; anything else is refused',
  {},
  async (chat) => {
    const file = (name, text) => ({ name, mimeType: 'application/json', buffer: Buffer.from(text) });
    const picker = chat.page.locator('.list input[type=file]');
    await picker.setInputFiles(file('bad.json', '{"turns": [{"id": 3}]}'));
    await chat.page
      .getByRole('alert')
      .getByText(/bad\.json is no conversation/)
      .waitFor();
    await picker.setInputFiles(file('bad.json', '<script>window.ran = 1</script>'));
    await chat.page
      .getByRole('alert')
      .getByText(/It is not JSON/)
      .waitFor();

    const hostile = conversation('x', '<img src=x onerror="window.ran=1">', [
      userTurn('1', null, '<script>window.ran = 2</script>'),
      replyTurn('2', '1', '<svg onload="window.ran=3">**bold**'),
    ]);
    await picker.setInputFiles(file('good.json', JSON.stringify(hostile)));
    await chat.answer.locator('strong').waitFor();
    await settled(async () =>
      assert.equal(await chat.page.locator('.scroller :is(script, img, svg[onload]), .list img').count(), 0),
    );
    assert.equal(await chat.page.evaluate(() => window.ran), undefined);
    await picker.setInputFiles(file('good.json', JSON.stringify(hostile)));
    await until(
      chat.page,
      async () => (await chat.titles).filter((title) => title.startsWith('<img')).length,
      (count) => count === 2,
      'a second import is a second conversation',
    );
  },
);

test('the list is searched, and grouped by dates', { timeout: kTestMs }, async () => {
  const old = conversation('a', 'Bread', [userTurn('1', null, 'How long does the dough rest?')]);
  const other = conversation('b', 'Whales', [userTurn('1', null, 'How long is a whale?')]);
  const chat = await shared.open({ storage: { ...record(old), ...record(other) } });
  await chat.page.getByRole('region', { name: 'September 2001' }).waitFor();
  await chat.page.keyboard.press('Control+k');
  await chat.page.locator('input[aria-label="Search conversations"]:focus').waitFor();
  await chat.page.keyboard.type('DOUGH');
  await settled(async () =>
    assert.deepEqual(await chat.page.locator('.entry mark').allInnerTexts(), ['dough']),
  );
  await settled(async () => assert.equal(await chat.page.locator('.entry').count(), 1));
  await chat.page.getByLabel('Search conversations').fill('zebra');
  await chat.page.getByText('Nothing found.').waitFor();
  await chat.close();
});

pageTest('text files are pasted and dropped; others are refused', {}, async (chat) => {
  await chat.setLongestReply(4);
  const give = (kind, selector, name, bytes) =>
    chat.page.locator(selector).evaluate(
      (element, [type, fileName, data]) => {
        const transfer = new DataTransfer();
        transfer.items.add(new File([new Uint8Array(data)], fileName));
        const event =
          type === 'paste'
            ? new ClipboardEvent('paste', { clipboardData: transfer, bubbles: true, cancelable: true })
            : new DragEvent('drop', { dataTransfer: transfer, bubbles: true, cancelable: true });
        element.dispatchEvent(event);
      },
      [kind, name, [...bytes]],
    );
  await give('paste', '.composer-text', 'a.txt', Buffer.from('alpha'));
  await give('drop', '.scroller', 'b.md', Buffer.from('```\nbeta\n```'));
  await chat.button('Remove a.txt').waitFor();
  await chat.button('Remove b.md').waitFor();
  await give('drop', '.scroller', 'c.bin', Buffer.from([0, 255, 254]));
  await chat.page
    .getByRole('alert')
    .getByText(/c\.bin is not a text file/)
    .waitFor();
  await chat.ask('Compare');
  assert.equal(
    chat.requests[0].messages[0].content,
    'a.txt:\n```\nalpha\n```\n\nb.md:\n````\n```\nbeta\n```\n````\n\nCompare',
  );
  await chat.page.getByRole('article', { name: 'You' }).getByText('b.md').waitFor();
});

pageTest('a conversation has a system prompt of its own', {}, async (chat) => {
  await chat.setLongestReply(4);
  await chat.withSettings(async (panel) => {
    await panel.getByLabel('System prompt', { exact: true }).fill('general');
    await panel.getByLabel('System prompt of this conversation').fill('special');
  });
  await chat.ask('Hello');
  await chat.button('New conversation').first().click();
  await chat.ask('Hello again');
  assert.deepEqual(
    chat.requests.map(({ messages }) => messages[0].content),
    ['special', 'general'],
  );
});

pageTest('the keys work, and the sheet of keys says which', {}, async (chat) => {
  const { keyboard } = chat.page;
  await chat.setLongestReply(4);
  await chat.ask('One');
  await keyboard.press('Alt+KeyR');
  await chat.page.getByLabel('Version 2 of 2').waitFor();
  await chat.replied();
  await keyboard.press('Control+Shift+KeyO');
  await until(
    chat.page,
    () => chat.replies.count(),
    (count) => count === 0,
    'a new conversation',
  );
  await keyboard.press('Alt+ArrowDown');
  await chat.page.getByLabel('Version 2 of 2').waitFor();
  await chat.page.locator('.scroller').focus();
  await keyboard.press('?');
  const sheet = chat.page.getByRole('dialog', { name: 'Keys' });
  await sheet.getByText('Search conversations').waitFor();
  await keyboard.press('Escape');
  await sheet.waitFor({ state: 'detached' });
  await keyboard.press('/');
  await until(
    chat.page,
    () => chat.entry.evaluate((entry) => entry === entry.ownerDocument.activeElement),
    (focused) => focused,
    'the entry has the focus',
  );
  await keyboard.type('a?b'); // Typed, not obeyed.
  await settled(async () => assert.equal(await chat.entry.inputValue(), 'a?b'));
  await keyboard.press('Alt+KeyM');
  await chat.page.getByRole('img', { name: /^Pages: / }).waitFor();
});

test('a browser that keeps nothing says so, and chats', { timeout: kTestMs }, async () => {
  const chat = await shared.open();
  await chat.context.addInitScript(() => {
    for (const name of ['localStorage', 'sessionStorage'])
      Object.defineProperty(window, name, {
        get() {
          throw new DOMException('denied', 'SecurityError');
        },
      });
  });
  await chat.page.reload();
  await chat.setLongestReply(4);
  await chat.ask('Hello');
  await chat.page.getByText(/This browser keeps no more/).waitFor();
  await chat.close();
});

test('of four hundred messages only those near the view are rendered', { timeout: kTestMs }, async () => {
  const turns = Array.from({ length: 400 }, (_, index) => {
    const [id, parent] = [`${index}`, index === 0 ? null : `${index - 1}`];
    const text = `**Message ${index}** ${'and some words to fill the line '.repeat(20)}`;
    return index % 2 === 0 ? userTurn(id, parent, text) : replyTurn(id, parent, text);
  });
  const chat = await shared.open({ storage: record(conversation('big', 'Big', turns)) });
  await chat.answer.getByText('Message 399').waitFor();
  const rendered = () => chat.page.locator('.markdown').count();
  await settled(async () => assert.equal(await chat.page.getByRole('article').count(), 400));
  assert.ok((await rendered()) < 20, `${await rendered()} are rendered`);
  const scroller = chat.page.locator('.scroller');
  const atEnd = () => scroller.evaluate((one) => one.scrollHeight - one.scrollTop - one.clientHeight < 2);
  await until(chat.page, atEnd, Boolean, 'it opens at its end');

  await scroller.evaluate((one) => one.scrollTo(0, 0));
  await chat.replies.first().locator('.markdown').waitFor();
  await chat.page.getByRole('article').nth(1).getByText('Message 1', { exact: true }).waitFor();
  assert.ok((await rendered()) < 40, `${await rendered()} are rendered`);
  await chat.close();
});
