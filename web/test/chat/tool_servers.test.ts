import { expect, test } from 'vitest';
import { readServerUrl, readToolServers } from '../../src/chat/tool_servers';
import { argumentsOf, toolFor } from '../../src/chat/tool_runs';
import { kEmptyReply } from '../../src/chat/reply_builder';

test('the address of a server is one of the web, without a user in it', () => {
  expect(readServerUrl(' http://localhost:3000/mcp#x ')).toBe('http://localhost:3000/mcp');
  for (const bad of [
    '',
    'localhost',
    'ftp://x/',
    'javascript:alert(1)',
    'data:text/plain,x',
    'https://a:b@c/',
  ])
    expect(readServerUrl(bad)).toBeNull();
});

test('what was stored is rebuilt field by field', () => {
  const stored = [
    { url: 'https://a.example/', token: 't', on: true, more: 1 },
    { url: 'x' },
    null,
    3,
    { url: 'http://b/' },
  ];
  expect(readToolServers(stored)).toEqual([
    { url: 'https://a.example/', token: 't', on: true },
    { url: 'http://b/', token: '', on: false },
  ]);
  expect(readToolServers('x')).toEqual([]);
});

test('a call that was cut is never run', () => {
  const call = (text: string) => ({ id: 'a', name: 'f', arguments: text, result: null });
  expect(argumentsOf(call('{"a": 1}'))).toEqual({ a: 1 });
  expect(argumentsOf(call(''))).toEqual({});
  for (const cut of ['{"a": 1', '[1]', '"x"', 'null', '{']) expect(argumentsOf(call(cut))).toBeNull();
  for (const ending of ['length', 'stopped', 'failed', null] as const)
    expect(toolFor({ ...kEmptyReply, ending }, call('{}'))).toBeUndefined();
});
