import { expect, test } from 'vitest';
import { kGoneMs, Presence } from '../../src/chat/other_tabs';

test('a tab that answers is there, one that is silent is gone', () => {
  const presence = new Presence();
  expect(presence.gone(['a', 'b'], 0)).toEqual([]);
  presence.hear('a', kGoneMs - 1);
  expect(presence.gone(['a', 'b'], kGoneMs)).toEqual(['b']);
  expect(presence.gone(['a'], 2 * kGoneMs - 2)).toEqual([]);
  expect(presence.gone(['a'], 2 * kGoneMs)).toEqual(['a']);
});

test('a conversation that streams again later begins anew', () => {
  const presence = new Presence();
  presence.gone(['a'], 0);
  presence.gone([], 10);
  expect(presence.gone(['a'], 10 * kGoneMs)).toEqual([]);
});
