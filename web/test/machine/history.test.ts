import { expect, test } from 'vitest';
import type { SchedulerStats, Stats } from '../../src/api/stats';
import { RateHistory } from '../../src/machine/history';

function look(uptime: number, counters: Partial<SchedulerStats>): Stats {
  const scheduler = {
    prompt_tokens: 0,
    cached_tokens: 0,
    reply_tokens: 0,
    steps: 0,
    step_seconds: 0,
    ...counters,
  };
  return { uptime_seconds: uptime, scheduler } as Stats;
}

test('rates are differences over the time of the server', () => {
  const history = new RateHistory();
  history.add(look(10, { reply_tokens: 100 }));
  expect(history.samples).toEqual([]);
  history.add(
    look(12, { reply_tokens: 150, prompt_tokens: 600, cached_tokens: 512, steps: 50, step_seconds: 1 }),
  );
  expect(history.samples).toEqual([{ at: 12, replyRate: 25, promptRate: 44, stepSeconds: 0.02 }]);
  history.add(
    look(13, { reply_tokens: 150, prompt_tokens: 600, cached_tokens: 512, steps: 50, step_seconds: 1 }),
  );
  expect(history.samples.at(-1)).toEqual({ at: 13, replyRate: 0, promptRate: 0, stepSeconds: null });
});

test('a server started anew begins a new history', () => {
  const history = new RateHistory();
  history.add(look(100, { reply_tokens: 9000 }));
  history.add(look(101, { reply_tokens: 9100 }));
  history.add(look(1, { reply_tokens: 3 }));
  expect(history.samples).toEqual([]);
  history.add(look(2, { reply_tokens: 8 }));
  expect(history.samples.map(({ replyRate }) => replyRate)).toEqual([5]);
});

test('looks at the same moment say nothing, and old ones are forgotten', () => {
  const history = new RateHistory();
  history.add(look(1, {}));
  history.add(look(1, { reply_tokens: 5 }));
  expect(history.samples).toEqual([]);
  for (let second = 2; second < 900; second += 1) history.add(look(second, {}));
  expect(history.samples).toHaveLength(600);
  expect(history.samples.at(-1)?.at).toBe(899);
});

test('what the server remembers is shown as if this page had been there', () => {
  const columns = [
    'uptime_seconds',
    'running',
    'prompt_tokens',
    'cached_tokens',
    'reply_tokens',
    'steps',
    'step_seconds',
  ];
  const rows = [0, 1, 2].map((second) => [second, 1, 10 * second, 0, 5 * second, second, 0.5 * second]);
  const history = new RateHistory();
  history.add(look(700, { reply_tokens: 1 }));
  history.add({ ...look(3, { reply_tokens: 30, prompt_tokens: 20 }), history: { columns, rows } });
  expect(history.samples.map(({ at, replyRate }) => [at, replyRate])).toEqual([
    [1, 5],
    [2, 5],
    [3, 20],
  ]);
  history.add(look(4, { reply_tokens: 37, prompt_tokens: 20 }));
  expect(history.samples.at(-1)).toMatchObject({ at: 4, replyRate: 7 });
  const damaged = { columns: columns.slice(1), rows };
  history.add({ ...look(5, {}), history: damaged });
  expect(history.samples).toEqual([]);
});
