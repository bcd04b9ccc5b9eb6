import { expect, test } from 'vitest';
import { cellAt, evenness } from '../../src/machine/heat_grid';

const kGrid = { left: 20, cell: 10, row: 5 };
const kLoad = [[1, 1, 2], [], [0, 9, 0]];

test('the cell under a point', () => {
  expect(cellAt(kGrid, kLoad, 20, 0)).toEqual({ layer: 0, expert: 0 });
  expect(cellAt(kGrid, kLoad, 49.9, 4.9)).toEqual({ layer: 0, expert: 2 });
  expect(cellAt(kGrid, kLoad, 35, 12)).toEqual({ layer: 2, expert: 1 });
});

test('no cell beside the map, nor in a layer without counts', () => {
  for (const [x, y] of [
    [19, 0],
    [50, 0],
    [25, 7],
    [25, 15],
    [25, -1],
  ] as const) {
    expect(cellAt(kGrid, kLoad, x, y)).toBeNull();
  }
  expect(cellAt({ ...kGrid, cell: 0 }, kLoad, 30, 1)).toBeNull();
});

test('the busiest expert against the mean of its layer', () => {
  expect(evenness(kLoad)).toEqual({ layer: 2, expert: 1, ratio: 3 });
  expect(evenness([[], [0, 0]])).toBeNull();
});
