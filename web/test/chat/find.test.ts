import { expect, test } from 'vitest';
import { newConversation, withTurn, type Conversation } from '../../src/chat/conversation';
import { groupByDate } from '../../src/chat/date_groups';
import { search } from '../../src/chat/search';

const at = (time: number, title: string, text: string): Conversation => ({
  ...withTurn(newConversation(time), null, { role: 'user', text }, time),
  title,
});

test('groups go from today to months, newest first', () => {
  const now = new Date(2026, 2, 10, 15).getTime();
  const day = (month: number, date: number) => new Date(2026, month, date, 12).getTime();
  const list = [day(0, 3), day(2, 9), day(2, 10), day(2, 4), day(1, 20), now].map((time, index) =>
    at(time, `c${index}`, 'x'),
  );
  const groups = groupByDate(list, now).map(({ label, conversations }) => [
    label,
    conversations.map(({ title }) => title).join(' '),
  ]);
  expect(groups).toEqual([
    ['Today', 'c5 c2'],
    ['Yesterday', 'c1'],
    ['Previous 7 days', 'c3'],
    ['Previous 30 days', 'c4'],
    ['January 2026', 'c0'],
  ]);
});

test('titles and everything that was said are searched, without case, with any white space', () => {
  const list = [at(1, 'Whales', 'nothing'), at(2, 'Other', 'A long way to\nthe WHALE (c++) and back')];
  expect(search(list, '').length).toBe(2);
  expect(search(list, 'whale').map(({ excerpt }) => excerpt?.match ?? null)).toEqual([null, 'WHALE']);
  expect(search(list, 'to the whale')[0]?.excerpt).toMatchObject({
    before: 'A long way ',
    after: ' (c++) and back',
  });
  expect(search(list, '(c++)').length).toBe(1);
  for (const query of ['[', '(.*)+$', '\\', '$^']) expect(search(list, query)).toEqual([]);
});
