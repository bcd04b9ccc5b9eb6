import { expect, test } from 'vitest';
import { prettyJson } from '../../src/chat/pretty_json';

const kValues: unknown[] = [
  { location: 'Lisbon, {Portugal}', unit: 'celsius', days: [1, 2, { deep: [] }], none: {}, quote: '\\"' },
  [],
  [[], {}, [null, true]],
  'text: "x", [y]',
  -1.5e10,
];

test('whole values are laid out as JSON.stringify does', () => {
  for (const value of kValues) {
    expect(prettyJson(JSON.stringify(value))).toBe(JSON.stringify(value, null, 2));
    expect(prettyJson(JSON.stringify(value, null, 3))).toBe(JSON.stringify(value, null, 2));
  }
});

test('text cut anywhere keeps every character that is no space', () => {
  const text = JSON.stringify(kValues);
  for (let length = 0; length <= text.length; length += 1) {
    const cut = text.slice(0, length);
    expect(prettyJson(cut).replace(/\s/g, '')).toBe(cut.replace(/\s/g, ''));
  }
});

test('what is no JSON does no harm', () => {
  expect(prettyJson(']}}')).toBe('\n]\n}\n}');
});
