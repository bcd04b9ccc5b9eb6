/** Source code as runs of text with the kind of each: keyword, string, comment and so on. */
import bash from 'highlight.js/lib/languages/bash';
import c from 'highlight.js/lib/languages/c';
import cmake from 'highlight.js/lib/languages/cmake';
import cpp from 'highlight.js/lib/languages/cpp';
import csharp from 'highlight.js/lib/languages/csharp';
import css from 'highlight.js/lib/languages/css';
import diff from 'highlight.js/lib/languages/diff';
import go from 'highlight.js/lib/languages/go';
import ini from 'highlight.js/lib/languages/ini';
import java from 'highlight.js/lib/languages/java';
import javascript from 'highlight.js/lib/languages/javascript';
import json from 'highlight.js/lib/languages/json';
import kotlin from 'highlight.js/lib/languages/kotlin';
import lua from 'highlight.js/lib/languages/lua';
import makefile from 'highlight.js/lib/languages/makefile';
import python from 'highlight.js/lib/languages/python';
import ruby from 'highlight.js/lib/languages/ruby';
import rust from 'highlight.js/lib/languages/rust';
import sql from 'highlight.js/lib/languages/sql';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';
import { createLowlight } from 'lowlight';

const lowlight = createLowlight({
  bash,
  c,
  cmake,
  cpp,
  csharp,
  css,
  diff,
  go,
  ini,
  java,
  javascript,
  json,
  kotlin,
  lua,
  makefile,
  python,
  ruby,
  rust,
  sql,
  typescript,
  xml,
  yaml,
});
lowlight.registerAlias({
  cpp: ['cuda', 'cu', 'cuh'],
  bash: ['shell', 'console'],
  ini: ['toml'],
  json: ['jsonl'],
});

/** Longer code is shown plain: while a reply grows, its last block is read again for every frame. */
const kMostHighlighted = 40_000;

export interface CodeRun {
  text: string;
  /** Class names of the kinds that hold here, outermost first; empty for plain text. */
  kinds: string;
}

type Nodes = ReturnType<typeof lowlight.highlight>['children'];

/** `language` as it stands after the fence; code in an unknown one is a single plain run. */
export function highlight(code: string, language: string): CodeRun[] {
  const name = (/^[\w+#.-]+/.exec(language)?.[0] ?? '').toLowerCase();
  if (code.length > kMostHighlighted || !lowlight.registered(name)) return [{ text: code, kinds: '' }];
  const runs: CodeRun[] = [];
  const walk = (nodes: Nodes, kinds: string) => {
    for (const node of nodes) {
      if (node.type === 'text') runs.push({ text: node.value, kinds });
      else if (node.type === 'element') {
        const own = node.properties.className;
        walk(node.children, [kinds, ...(Array.isArray(own) ? own : [])].filter(Boolean).join(' '));
      }
    }
  };
  walk(lowlight.highlight(name, code, { prefix: 'code-' }).children, '');
  return runs;
}
