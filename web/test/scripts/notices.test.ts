import { expect, test } from 'vitest';
import committed from '../../dist/notices.txt?raw';
import manifest from '../../package.json?raw';
// @ts-expect-error: a script of the build, without types
import { noticesOf } from '../../scripts/notices.mjs';

const root = new URL('../../', import.meta.url).pathname;

test('every package that the page depends on has its licence in the notices', () => {
  const { dependencies } = JSON.parse(manifest) as {
    dependencies: Record<string, string>;
  };
  for (const [name, version] of Object.entries(dependencies)) {
    expect(committed).toContain(`${name} ${version} (`);
    const path = `${root}node_modules/${name}/index.js`;
    const text = (noticesOf([path]) as string).split('-'.repeat(80)).at(-1)?.trim() ?? '';
    expect(text).toMatch(/Permission is hereby granted|Redistribution and use|Apache License/);
    expect(committed).toContain(text);
  }
});

test('sources of the page itself need no notice', () => {
  expect(noticesOf([`${root}src/main.tsx`, '\0vite/modulepreload'])).not.toContain('----');
});
