import { expect, test } from 'vitest';
import { linesOf, type PlacedText } from '../../src/pdf/text_lines';

const placed = (str: string, y: number, hasEOL = true): PlacedText => ({
  str,
  hasEOL,
  transform: [1, 0, 0, 1, 72, y],
  height: 10,
});

test('pieces of a line are joined, lines are parted, and paragraphs by an empty line', () => {
  const items = [
    placed('The fox ', 700, false),
    placed('ran.  ', 700),
    placed('It was late.', 688),
    placed('', 688),
    placed('A new paragraph.', 650),
    placed('Above: a new column.', 700),
  ];
  expect(linesOf(items)).toBe('The fox ran.\nIt was late.\n\nA new paragraph.\nAbove: a new column.');
});

test('a page without text is empty', () => {
  expect(linesOf([])).toBe('');
  expect(linesOf([placed(' ', 700), placed('', 690)])).toBe('');
});
