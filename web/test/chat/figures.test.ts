import { expect, test } from 'vitest';
import { figureLine, kNoFigures, seconds, tokensPerSecond } from '../../src/chat/figures';

const kFigures = {
  firstToken: 100,
  reasoning: null,
  whole: 1100,
  usage: {
    prompt_tokens: 1531,
    completion_tokens: 51,
    prompt_tokens_details: { cached_tokens: 1280 },
    completion_tokens_details: { accepted_prediction_tokens: 20, rejected_prediction_tokens: 5 },
  },
};

test('the rate leaves the first token and its wait out', () => {
  expect(tokensPerSecond(kFigures)).toBe(50);
  expect(tokensPerSecond({ ...kFigures, whole: 100 })).toBeNull();
  expect(tokensPerSecond(kNoFigures)).toBeNull();
});

test('the line says what is known and no more', () => {
  expect(figureLine(kFigures).map(({ text }) => text)).toEqual([
    '51 tokens',
    '50.0 tokens/s',
    'first after 100 ms',
    'prompt 1,531, 1,280 cached',
    '20 of 25 drafts',
  ]);
  expect(figureLine(kNoFigures)).toEqual([]);
  expect(figureLine({ ...kNoFigures, firstToken: 1234 }).map(({ text }) => text)).toEqual([
    'first after 1.2 s',
  ]);
});

test('times have a sensible number of digits', () => {
  expect([4.4, 999, 1000, 59_900, 61_000].map(seconds)).toEqual([
    '4 ms',
    '999 ms',
    '1.0 s',
    '59.9 s',
    '61 s',
  ]);
});
