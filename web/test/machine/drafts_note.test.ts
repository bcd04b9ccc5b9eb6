import { expect, test } from 'vitest';
import { draftsNote } from '../../src/machine/drafts_note';

test('what chains of drafts bring, and how far they are right', () => {
  const drafts_by_depth = [
    { drafted: 100, accepted: 58 },
    { drafted: 100, accepted: 45 },
    { drafted: 50, accepted: 4 },
    { drafted: 0, accepted: 0 },
  ];
  expect(
    draftsNote({ drafted_tokens: 250, accepted_tokens: 107, draft_chains: 100, drafts_by_depth }),
  ).toBe('of 250; by position 58%, 45%, 8.0%; 2.07 tokens a step');
  expect(draftsNote({ drafted_tokens: 0, accepted_tokens: 0, draft_chains: 0, drafts_by_depth: [] })).toBe(
    'none were made',
  );
});
