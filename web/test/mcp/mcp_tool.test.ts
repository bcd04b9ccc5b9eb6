import { expect, test } from 'vitest';
import { callableName, kMostResult, readTool, resultText } from '../../src/mcp/mcp_tool';

test('a tool has a name; all else may be missing or odd', () => {
  expect(readTool({ name: 'f' })).toEqual({ name: 'f', description: '', schema: { type: 'object' } });
  expect(readTool({ name: 'f', description: 3, inputSchema: [] })).toEqual({
    name: 'f',
    description: '',
    schema: { type: 'object' },
  });
  for (const bad of [null, 1, [], {}, { name: '' }, { name: 3 }]) expect(readTool(bad)).toBeNull();
});

test('a result is text, whatever its blocks are', () => {
  const content = [
    { type: 'text', text: 'one' },
    { type: 'image', mimeType: 'image/png', data: 'AAAA' },
    { type: 'resource', resource: { uri: 'x', text: 'two' } },
    { type: 'resource_link', uri: 'file:///three' },
    null,
    { type: 'hologram' },
  ];
  expect(resultText({ content })).toBe(
    'one\n[image, image/png]\ntwo\nfile:///three\n[hologram, of no known kind]',
  );
  expect(resultText({ content: [{ type: 'text', text: 'no such file' }], isError: true })).toBe(
    'Error: no such file',
  );
  expect(resultText({ structuredContent: { a: 1 } })).toBe('{"a":1}');
  for (const empty of [{}, { content: 'x' }, { content: [] }]) expect(resultText(empty)).toBe('(nothing)');
  const long = resultText({ content: [{ type: 'text', text: 'x'.repeat(kMostResult + 5) }] });
  expect(long.endsWith(`[cut here: the tool said ${kMostResult + 5} characters]`)).toBe(true);
});

test('every tool has a name of its own that a model may write', () => {
  const none = new Set<string>();
  expect(callableName('get_weather', none)).toBe('get_weather');
  expect(callableName('files/read.text', none)).toBe('files_read_text');
  expect(callableName('f', new Set(['f', 'f_2']))).toBe('f_3');
  const long = 'x'.repeat(100);
  expect(callableName(long, none)).toBe('x'.repeat(64));
  expect(callableName(long, new Set(['x'.repeat(64)]))).toBe(`${'x'.repeat(62)}_2`);
});
