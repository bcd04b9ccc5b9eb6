import type { VNode } from 'preact';
import { memo } from 'preact/compat';
import { useLayoutEffect, useRef } from 'preact/hooks';
import temml from 'temml';

/** Longer formulas are shown as they were written. */
const kMostSource = 8000;
/** Of macros, so that a definition that calls itself ends. */
const kMostExpansions = 500;
/** In em: a formula cannot cover the page. */
const kLargestSize: [number, number] = [20, 200];

/** A formula as MathML elements; one that cannot be read is shown as it was written. */
export const Formula = memo(({ source, display }: { source: string; display: boolean }): VNode => {
  const ref = useRef<HTMLSpanElement>(null);
  useLayoutEffect(() => {
    if (ref.current) typeset(ref.current, source, display);
  }, [source, display]);
  return <span ref={ref} class={display ? 'formula formula-display' : 'formula'} />;
});

function typeset(element: HTMLElement, source: string, display: boolean): void {
  element.removeAttribute('title');
  try {
    if (source.length > kMostSource) throw new RangeError('The formula is too long.');
    // `trust` off: no links, no classes, no styles, no pictures from the formula.
    temml.render(source, element, {
      displayMode: display,
      annotate: true,
      throwOnError: true,
      trust: false,
      maxExpand: kMostExpansions,
      maxSize: kLargestSize,
    });
  } catch (error) {
    const code = document.createElement('code');
    code.textContent = source;
    element.replaceChildren(code);
    element.title = error instanceof Error ? error.message : String(error);
  }
}
