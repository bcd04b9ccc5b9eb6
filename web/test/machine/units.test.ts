import { expect, test } from 'vitest';
import { bytes, compact, count, duration, percent } from '../../src/machine/units';

test('three digits and a unit', () => {
  expect([0, 7, 7.25, 73.66, 999, 999.7, 1234, 45_600, 2.5e9].map(compact)).toEqual([
    '0',
    '7',
    '7.25',
    '73.7',
    '999',
    '1.00k',
    '1.23k',
    '45.6k',
    '2.50G',
  ]);
  expect([12, 1024, 1.5 * 1024 ** 3].map(bytes)).toEqual(['12 B', '1.00 KiB', '1.50 GiB']);
  expect(count(1048576)).toBe('1,048,576');
});

test('durations', () => {
  expect([2e-6, 0.0123, 0.25, 12.34, 61, 3700].map(duration)).toEqual([
    '2.0 µs',
    '12.30 ms',
    '250 ms',
    '12.3 s',
    '1 min 1 s',
    '1 h 1 min',
  ]);
});

test('shares', () => {
  expect([percent(1, 3), percent(1, 100), percent(0, 5), percent(3, 0)]).toEqual(['33%', '1.0%', '0%', '0%']);
});
