import { expect, test } from 'vitest';
import { EventStream } from '../../src/api/event_stream';

const kText = 'data: {"a":1}\n\n: comment\nevent: x\ndata:two\ndata: lines\r\n\r\ndata: [DONE]\n\n';
const kEvents = ['{"a":1}', 'two\nlines', '[DONE]'];

test('events are the same however the text is cut', () => {
  for (let size = 1; size <= kText.length; size += 1) {
    const stream = new EventStream();
    const events: string[] = [];
    for (let at = 0; at < kText.length; at += size) events.push(...stream.push(kText.slice(at, at + size)));
    expect(events).toEqual(kEvents);
  }
});

test('an event without its blank line has not happened', () => {
  const stream = new EventStream();
  expect(stream.push('data: half\n')).toEqual([]);
  expect(stream.push('\n')).toEqual(['half']);
});
