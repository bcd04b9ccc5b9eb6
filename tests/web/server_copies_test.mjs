// Conversations that the server keeps beside the browser's own, in Chromium: two browsers, one server.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { pageUnderTest, settled, until } from './page_under_test.mjs';

const folder = mkdtempSync(join(tmpdir(), 'baleen_conversations_'));
const shared = pageUnderTest(['--conversations', folder]);
after(() => rmSync(folder, { recursive: true, force: true }));
const { pageTest } = shared;

const kept = () =>
  readdirSync(folder)
    .filter((name) => name.endsWith('.json'))
    .map((name) => JSON.parse(readFileSync(join(folder, name), 'utf8')));
const keptTitled = (title) => kept().find((one) => one.title === title);
const serverList = (chat) => chat.page.getByRole('region', { name: 'On the server' });

pageTest('nothing is kept unless the user says so', {}, async (chat) => {
  await chat.setLongestReply(8);
  await chat.ask('For myself');
  await chat.chooseOf('For myself', 'Keep on the server');
  await until(
    () => kept().length,
    (count) => count === 1,
    'the one that was chosen is kept',
  );
  await chat.button('New conversation').first().click();
  await chat.ask('Not this one');
  await chat.chooseOf('For myself', 'Remove from the server');
  await until(
    () => kept().length,
    (count) => count === 0,
    'and the one that was removed is gone',
  );
  assert.ok((await chat.titles).includes('For myself'), 'but still here');
});

pageTest(
  'another browser opens it, both go on, and neither loses a message',
  { expected: /status of 412/ },
  async (first) => {
    await first.setLongestReply(8);
    await first.ask('Shared');
    await first.chooseOf('Shared', 'Keep on the server');
    await until(
      () => keptTitled('Shared')?.turns.length,
      (turns) => turns === 2,
      'it is kept',
    );

    const second = await shared.open();
    await second.setLongestReply(8);
    await serverList(second).getByRole('button', { name: 'Shared', exact: true }).click();
    await until(
      () => second.replies.count(),
      (count) => count === 1,
      'the other browser shows it',
    );
    await second.ask('From the second browser');
    await until(
      () => keptTitled('Shared')?.turns.length,
      (turns) => turns === 4,
      'what it says is kept',
    );

    // The first browser has not looked since: its own words are joined with those, not put over them.
    await first.ask('From the first browser');
    await until(
      () => keptTitled('Shared')?.turns.length,
      (turns) => turns === 6,
      'both are kept',
    );
    const texts = keptTitled('Shared').turns.map(({ message }) => message.text);
    assert.ok(texts.includes('From the first browser') && texts.includes('From the second browser'));
    await second.page.reload();
    await settled(async () => assert.equal(await second.page.getByLabel(/Version \d of 2/).count(), 1));
    await second.close(/status of 412/);
  },
);

pageTest('it is still there when the browser has deleted its own', {}, async (chat) => {
  await chat.setLongestReply(8);
  await chat.ask('Back again');
  await chat.chooseOf('Back again', 'Keep on the server');
  await until(
    () => keptTitled('Back again')?.turns.length,
    (turns) => turns === 2,
    'it is kept',
  );
  const said = await chat.answer.innerText();
  await chat.chooseOf('Back again', 'Delete');
  await chat.button('Delete').click();
  await serverList(chat).getByRole('button', { name: 'Back again', exact: true }).click();
  await until(
    () => chat.answer.innerText(),
    (text) => text === said,
    'it comes back from the server',
  );
  await chat.page.waitForFunction((words) => {
    const records = Object.entries(localStorage).filter(([key]) => key.startsWith('baleen.conversation.'));
    return records.some(([, record]) => record.includes(words));
  }, 'Back again');
  await chat.page.reload();
  await until(
    () => chat.answer.innerText(),
    (text) => text === said,
    'it stays, though it was deleted here before',
  );
  await chat.chooseOf('Back again', 'Delete');
  await chat.button('Delete').click();
  await serverList(chat).getByRole('button', { name: 'More of Back again' }).waitFor({ state: 'attached' });
  await serverList(chat).locator('.entry').filter({ hasText: 'Back again' }).hover();
  await chat.choose('More of Back again', 'Delete on the server');
  await chat.button('Delete').click();
  await until(
    () => keptTitled('Back again'),
    (one) => one === undefined,
    'gone on the server too',
  );
});
