import { expect, test } from 'vitest';
import { errorMessage, refusalOf } from '../../src/api/errors';

test('the sentence of an error body', () => {
  expect(errorMessage({ error: { message: 'too long' } })).toBe('too long');
  expect(errorMessage({ type: 'error', error: { type: 'x', message: 'no key' } })).toBe('no key');
  expect(errorMessage({ error: 'plain' })).toBe('plain');
  for (const body of [null, 3, 'text', {}, { error: {} }, { error: { message: 4 } }, { choices: [] }]) {
    expect(errorMessage(body)).toBeNull();
  }
});

test('an answer without a sentence is named by its status', async () => {
  const refusal = await refusalOf(new Response('<html>', { status: 502, statusText: 'Bad Gateway' }));
  expect(refusal.message).toBe('The server answered 502 Bad Gateway');
  expect(refusal.status).toBe(502);
});
