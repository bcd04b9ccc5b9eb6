import { expect, test } from 'vitest';
import {
  kDefaultSettings,
  kNumberControls,
  readNumber,
  readSchema,
  readStops,
  readTools,
  thinkingOf,
  type NumberControl,
} from '../../src/chat/settings';

const control = (key: string) => kNumberControls.find((one) => one.key === key) as NumberControl;

test('numbers are brought into range', () => {
  const read = (key: string, text: string) => readNumber(text, control(key));
  expect(read('temperature', '0.7')).toBe(0.7);
  expect(read('temperature', '9')).toBe(2);
  expect(read('topK', '3.6')).toBe(4);
  expect(read('maxTokens', '-5')).toBe(1);
  for (const nothing of ['', '  ', 'warm', 'NaN', 'Infinity']) expect(read('seed', nothing)).toBeNull();
});

test('the effort is one that the model has', () => {
  expect(thinkingOf('off', ['low', 'high'])).toBe('off');
  expect(thinkingOf('high', ['low', 'high'])).toBe('high');
  expect(thinkingOf('low', ['high', 'max'])).toBe('high');
  expect(thinkingOf('max', [])).toBe('off');
});

test('the example of a tool is a good one', () => {
  expect(readTools(kDefaultSettings.tools)).toMatchObject({ names: ['get_weather'] });
});

test('declarations that will not do are refused with a sentence', () => {
  expect(readTools('[{')).toMatch(/^Not JSON: /);
  expect(readTools('{}')).toMatch(/list/);
  for (const bad of ['[1]', '[null]', '[{"function":{}}]', '[{"function":{"name":""}}]']) {
    expect(readTools(bad)).toBe('Declaration 1 has no function.name.');
  }
});

test('stop strings stand one a line, with escapes', () => {
  expect(readStops('')).toEqual([]);
  expect(readStops('\n\n')).toEqual([]);
  expect(readStops('END\n\\n\\n\n a \nEND')).toEqual(['END', '\n\n', ' a ']);
  expect(readStops('C:\\\\dir\\x')).toEqual(['C:\\dir\\x']);
});

test('a schema is an object; the example is one', () => {
  expect(readSchema(kDefaultSettings.schema)).toMatchObject({ type: 'object' });
  expect(readSchema('{')).toMatch(/^Not JSON: /);
  for (const bad of ['[]', '1', 'null', '"x"']) expect(readSchema(bad)).toMatch(/object/);
});
