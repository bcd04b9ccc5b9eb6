import { expect, test } from 'vitest';

const texts = import.meta.glob<string>('../../src/style/*.css', {
  query: '?raw',
  import: 'default',
  eager: true,
});
const sheets = Object.entries(texts).map(([path, text]) => ({ name: path.replace(/.*\//, ''), text }));
const base = sheets.find(({ name }) => name === 'base.css')?.text ?? '';

/** WCAG 2.2, 1.4.3: for text below 18 pt. */
const kLeastContrast = 4.5;

type Rgba = [number, number, number, number];

function parse(hex: string): Rgba {
  const channel = (index: number) => parseInt(hex.slice(1 + 2 * index, 3 + 2 * index), 16) / 255;
  return [channel(0), channel(1), channel(2), hex.length > 7 ? channel(3) : 1];
}

function over(top: Rgba, below: Rgba): Rgba {
  const mix = (index: 0 | 1 | 2) => top[index] * top[3] + below[index] * (1 - top[3]);
  return [mix(0), mix(1), mix(2), 1];
}

function luminance([r, g, b]: Rgba): number {
  const linear = (value: number) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
}

function contrast(text: Rgba, ground: Rgba): number {
  const [low, high] = [luminance(text), luminance(ground)].sort((a, b) => a - b) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

/** The colours of one theme: 0 is light, 1 dark. */
function coloursOf(theme: 0 | 1): Map<string, Rgba> {
  const pairs = base.matchAll(/--([\w-]+): light-dark\((#\w+), (#\w+)\);/g);
  return new Map(
    [...pairs].map(([, name, light, dark]) => [name ?? '', parse((theme === 0 ? light : dark) ?? '')]),
  );
}

/** What text stands on: papers, and the tints that lie over them. */
const kPapers = ['paper', 'surface', 'raised'];
const kWashes = ['wash', 'danger-wash'];
/** Colours for lines and grounds, which no text has. */
const kNoText = new Set([...kPapers, ...kWashes, 'line', 'line-strong', 'on-accent']);

test.each([
  ['light', 0],
  ['dark', 1],
] as const)('all text of the %s theme can be read', (_name, theme) => {
  const colours = coloursOf(theme);
  const colour = (name: string) => colours.get(name) as Rgba;
  const grounds = new Map<string, Rgba>();
  for (const paper of kPapers) {
    grounds.set(paper, colour(paper));
    for (const wash of kWashes) grounds.set(`${wash} on ${paper}`, over(colour(wash), colour(paper)));
    // Messages of the user and the current conversation are tinted with the accent; see --tint.
    const [r, g, b] = colour('accent');
    grounds.set(`accent tint on ${paper}`, over([r, g, b, 0.11], colour(paper)));
  }
  const texts = [...colours.keys()].filter((name) => !kNoText.has(name));
  expect(texts.length).toBeGreaterThan(8);
  const failures: string[] = [];
  for (const text of texts)
    for (const [name, ground] of grounds) {
      const ratio = contrast(colour(text), ground);
      if (ratio < kLeastContrast) failures.push(`--${text} on ${name}: ${ratio.toFixed(2)}`);
    }
  const onAccent = contrast(colour('on-accent'), colour('accent'));
  if (onAccent < kLeastContrast) failures.push(`--on-accent on accent: ${onAccent.toFixed(2)}`);
  expect(failures).toEqual([]);
});

test('every colour of text is one of the variables above', () => {
  const known = new Set([...coloursOf(0).keys()]);
  for (const { name, text } of sheets) {
    for (const [declaration, value] of text.matchAll(/(?<![-\w])(?:color|fill): ([^;]+);/g)) {
      const variable = /^var\(--([\w-]+)\)$/.exec(value ?? '')?.[1];
      const isGround = /fill: (?:none|currentColor|color-mix|light-dark)/.test(declaration);
      const allowed = value === 'inherit' || (variable !== undefined && known.has(variable)) || isGround;
      expect(allowed, `${name}: ${declaration}`).toBe(true);
    }
  }
});

test('no text is made fainter by opacity, but what is disabled or not shown', () => {
  for (const { name, text } of sheets)
    for (const [, selector, value] of text.matchAll(/([^{}]+)\{[^{}]*?(?<![-\w])opacity: ([\d.]+)/g)) {
      const allowed =
        /:disabled|polygon|unset|50%|\.actions|\.menu-button|\.choice input/.test(selector ?? '') ||
        value === '1';
      expect(allowed, `${name}: ${selector?.trim()} has opacity ${value}`).toBe(true);
    }
});
