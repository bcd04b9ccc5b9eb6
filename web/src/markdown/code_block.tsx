import type { VNode } from 'preact';
import { useMemo } from 'preact/hooks';
import { CopyButton } from '../elements/copy_button';
import { highlight } from './highlight';

/** Code with its language and a button that copies it; long lines are scrolled, with the keyboard too. */
export function CodeBlock({ text, language }: { text: string; language: string }): VNode {
  const runs = useMemo(() => highlight(text, language), [text, language]);
  return (
    <figure class="code">
      <figcaption>
        <span>{language}</span>
        <CopyButton text={text} label="Copy this code" />
      </figcaption>
      <pre tabIndex={0} role="group" aria-label={language ? `Code, ${language}` : 'Code'}>
        <code>{runs.map((run) => (run.kinds ? <span class={run.kinds}>{run.text}</span> : run.text))}</code>
      </pre>
    </figure>
  );
}
