import { expect, test } from 'vitest';
import { balancedness, rankBars } from '../../src/machine/rank_bars';

const kLayer = { before: [30, 10], after: [20, 20] };

test('the largest load of both sides fills the height', () => {
  expect(rankBars(kLayer, 'before', 40, 12)).toEqual([
    { x: 0, y: 0, width: 19, height: 12 },
    { x: 20, y: 8, width: 19, height: 4 },
  ]);
  expect(rankBars(kLayer, 'after', 40, 12).map((bar) => bar.height)).toEqual([8, 8]);
});

test('a small load can be seen, none cannot', () => {
  const bars = rankBars({ before: [1000, 1, 0], after: [1000, 1, 0] }, 'before', 9, 10);
  expect(bars.map((bar) => bar.height)).toEqual([10, 1, 0]);
  expect(bars.map((bar) => bar.width)).toEqual([3, 3, 3]);
});

test('no bars without tokens', () => {
  expect(rankBars({ before: [0, 0], after: [0, 0] }, 'before', 40, 12)).toEqual([]);
  expect(rankBars({ before: [], after: [] }, 'after', 40, 12)).toEqual([]);
});

test('mean over largest load', () => {
  expect(balancedness([30, 10])).toBeCloseTo(2 / 3);
  expect(balancedness([5, 5, 5])).toBe(1);
  expect(balancedness([0, 0])).toBeNull();
  expect(balancedness([])).toBeNull();
});
