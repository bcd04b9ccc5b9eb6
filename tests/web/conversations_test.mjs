// Conversations in Chromium: in two tabs, in versions, from files, by the hundred messages.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { kTestMs, pageUnderTest, settled, until } from './page_under_test.mjs';

const shared = pageUnderTest();
const { heldTest, pageTest } = shared;

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

pageTest('two tabs keep what each other wrote, and see it', {}, async (first) => {
  await first.setLongestReply(8);
  const second = await first.openTab();
  await first.ask('From the first tab');
  await second.button('New conversation').first().click();
  await second.ask('From the second tab');
  const both = (titles) =>
    ['From the first tab', 'From the second tab'].every((title) => titles.includes(title));
  await until(() => first.titles, both, 'the first tab lists both');
  await until(() => second.titles, both, 'the second tab lists both');
  await first.page.reload();
  await second.page.reload();
  await settled(async () => assert.ok(both(await first.titles), 'both survive both reloads'));
  await settled(async () => assert.ok(both(await second.titles)));

  // Deleted in one tab while the other one shows it: gone in both, for good.
  await second.page.getByRole('button', { name: 'From the first tab', exact: true }).click();
  await first.chooseOf('From the first tab', 'Delete');
  await first.button('Delete').click();
  const gone = (titles) => !titles.includes('From the first tab');
  await until(() => second.titles, gone, 'the deletion reaches the second tab');
  await second.page.getByText(/Another tab deleted “From the first tab”/).waitFor();
  await second.ask('And more'); // In a conversation of its own.
  await until(
    () => first.titles,
    (titles) => titles.includes('And more'),
    'the new one is a third',
  );
  await first.page.reload();
  await second.page.reload();
  assert.ok(gone(await first.titles) && gone(await second.titles), 'it does not come back');
});

heldTest('a reply that streams in one tab grows in the other, which only reads', {}, async (writer, held) => {
  await writer.withSettings((panel) => panel.getByText('Max', { exact: true }).click());
  await writer.setLongestReply(3000);
  await writer.say('Tell me a very long story about a whale.');
  const reply = await held.nextReply();
  reply.release(12);
  await writer.replies.locator('.markdown').first().waitFor();
  // A tab shows what is kept, and a reply is kept a moment after it is shown.
  await until(
    () => writer.page.evaluate(() => Object.values(localStorage).join()),
    (kept) => kept.includes('long story about a whale'),
    'the reply under way is kept',
  );
  const reader = await writer.openTab();
  await reader.page.getByText('Another tab of this browser receives this reply.').waitFor();
  const length = () =>
    reader.replies
      .last()
      .innerText()
      .then((text) => text.length);
  const before = await length();
  reply.release(40);
  await until(length, (now) => now > before, 'the text grows in the other tab');
  await reader.entry.fill('Me too');
  assert.ok(await reader.button('Send').isDisabled());
  await writer.page.keyboard.press('Escape');
  await writer.replied();
  await reader.replied();
  await until(
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

test('of a thousand messages only those near the view are elements', { timeout: kTestMs }, async () => {
  const turns = Array.from({ length: 1000 }, (_, index) => {
    const [id, parent] = [`${index}`, index === 0 ? null : `${index - 1}`];
    const text = `**Message ${index}** ${'and some words to fill the line '.repeat(20)}`;
    return index % 2 === 0 ? userTurn(id, parent, text) : replyTurn(id, parent, text);
  });
  const chat = await shared.open({ storage: record(conversation('big', 'Big', turns)) });
  await chat.answer.getByText('Message 999').waitFor();
  const messages = () => chat.page.getByRole('article').count();
  const elements = () => chat.page.locator('.messages *').count();
  const opened = await messages();
  assert.ok(opened <= 24, `${opened} messages are rendered`);
  assert.ok((await elements()) < 1000, `${await elements()} elements for a thousand messages`);
  const scroller = chat.page.locator('.scroller');
  const atEnd = () => scroller.evaluate((one) => one.scrollHeight - one.scrollTop - one.clientHeight < 2);
  await until(atEnd, Boolean, 'it opens at its end');
  // The browser's own search still finds what is far away.
  assert.ok(await scroller.evaluate((one) => one.textContent.includes('Message 500')));

  await scroller.evaluate((one) => one.scrollTo(0, 0));
  await chat.replies.first().getByText('Message 1', { exact: true }).waitFor();
  const both = await messages();
  assert.ok(both <= opened + 48, `${both} messages are rendered at both ends`);
  await chat.close();
});

test('two tabs on an empty store have a conversation each', { timeout: kTestMs }, async () => {
  const first = await shared.open();
  await first.setLongestReply(8);
  const second = await first.openTab();
  await first.ask('From the first');
  await until(
    () => second.titles,
    (titles) => titles.includes('From the first'),
    'the second tab lists it',
  );
  assert.equal(await second.replies.count(), 0, 'but shows its own');
  await second.ask('From the second');
  assert.equal(await second.replies.count(), 1);
  await until(
    () => first.titles,
    (titles) => titles.includes('From the second'),
    'the first tab lists it',
  );
  assert.deepEqual(await first.page.locator('.said-text').allInnerTexts(), ['From the first']);
  for (const [tab, text] of [
    [first, 'From the first'],
    [second, 'From the second'],
  ]) {
    await tab.page.reload();
    await tab.page.getByRole('article', { name: 'You' }).getByText(text, { exact: true }).waitFor();
    assert.equal(await tab.replies.count(), 1, 'each goes on with its own after a reload');
  }
  await first.close();
});

test(
  'what is being written stays when another tab deletes the conversation',
  { timeout: kTestMs },
  async () => {
    const one = conversation('a', 'Doomed', [userTurn('1', null, 'hi'), replyTurn('2', '1', 'ho')]);
    const other = conversation('b', 'Other', [userTurn('1', null, 'he'), replyTurn('2', '1', 'ha')]);
    const first = await shared.open({ storage: { ...record(one), ...record(other) } });
    await first.setLongestReply(8);
    const open = (tab, title) => tab.page.getByRole('button', { name: title, exact: true }).click();
    const second = await first.openTab();
    await open(second, 'Doomed');
    await second.entry.fill('Half a tho');
    await first.chooseOf('Doomed', 'Delete');
    await first.button('Delete').click();
    await second.page.getByText(/Another tab deleted “Doomed”/).waitFor();
    assert.equal(await second.entry.inputValue(), 'Half a tho');
    await second.ask('Half a thought');
    assert.deepEqual([...(await second.titles)].sort(), ['Half a thought', 'Other']);
    await open(second, 'Other');
    assert.equal(await second.replies.count(), 1, 'nothing was sent to the other one');
    await first.close();
  },
);

pageTest('a conversation is forked, whole and from a message', {}, async (chat) => {
  await chat.setLongestReply(8);
  await chat.ask('One');
  await chat.ask('Two');
  await chat.page.getByRole('article', { name: 'You' }).first().hover();
  await chat.page.getByRole('button', { name: 'More of this reply' }).first().click();
  await chat.page.getByRole('menuitem', { name: 'Fork from here' }).click();
  await until(
    () => chat.titles,
    (titles) => titles.includes('One (fork)'),
    'the fork is in the list',
  );
  await until(
    () => chat.replies.count(),
    (count) => count === 1,
    'it ends at the first reply',
  );
  await chat.ask('Three');
  assert.deepEqual(
    chat.requests.at(-1).messages.map(({ role }) => role),
    ['user', 'assistant', 'user'],
  );
  await chat.page.getByRole('button', { name: 'One', exact: true }).click();
  await until(
    () => chat.replies.count(),
    (count) => count === 2,
    'the first one is as it was',
  );
  await chat.chooseOf('One', 'Fork');
  await until(
    () => chat.titles,
    (titles) => titles.filter((one) => one === 'One (fork)').length === 2,
    'two forks',
  );
  assert.equal(await chat.replies.count(), 2);
});

pageTest('a message is deleted with what followed, in every tab and for good', {}, async (first) => {
  await first.setLongestReply(8);
  await first.ask('One');
  await first.ask('Two');
  const second = await first.openTab();
  await until(
    () => second.replies.count(),
    (count) => count === 2,
    'the second tab shows both',
  );
  await first.page.getByText('Two', { exact: true }).last().hover();
  await first.page.getByRole('button', { name: 'More of this message' }).last().click();
  await first.page.getByRole('menuitem', { name: 'Delete with all that follows' }).click();
  await until(
    () => first.replies.count(),
    (count) => count === 1,
    'it is gone',
  );
  await until(
    () => second.replies.count(),
    (count) => count === 1,
    'in the second tab too',
  );
  await second.ask('Another two');
  await until(
    () => first.replies.count(),
    (count) => count === 2,
    'the second tab goes on',
  );
  await first.page.reload();
  await until(
    () => first.replies.count(),
    (count) => count === 2,
    'it does not come back',
  );
  assert.equal(
    await first.page.getByRole('article', { name: 'You' }).getByText('Two', { exact: true }).count(),
    0,
  );
});

pageTest('a reply is edited in place, and goes on from there', {}, async (chat) => {
  await chat.setLongestReply(8);
  await chat.ask('Tell me a story.');
  await chat.choose('More of this reply', 'Edit');
  const editor = chat.page.getByRole('textbox', { name: 'Edit this reply' });
  await editor.fill('Once upon a time, a whale');
  await chat.button('Save').click();
  await until(
    () => chat.answer.innerText(),
    (text) => text === 'Once upon a time, a whale',
    'the new words',
  );
  await chat.page.getByText('Edited', { exact: true }).waitFor();
  await chat.page.reload();
  await until(
    () => chat.answer.innerText(),
    (text) => text === 'Once upon a time, a whale',
    'after a reload',
  );
  await chat.choose('More of this reply', 'Edit');
  await editor.fill('Once upon a time, a little whale');
  await chat.button('Save and continue').click();
  await until(
    () => chat.answer.innerText(),
    (text) => text.startsWith('Once upon a time, a little whale') && text.length > 34,
    'the model goes on from the new words',
  );
  await chat.replied();
  const last = chat.requests.at(-1).messages.at(-1);
  assert.deepEqual(
    [last.role, last.content, last.prefix],
    ['assistant', 'Once upon a time, a little whale', true],
  );
  assert.equal(await chat.replies.count(), 1, 'in place, not as another version');
});
