/**
 * Markdown as elements. The text comes from a model: it is never parsed as HTML, tags in it are shown as they stand,
 * links lead only where isSafeLink says, and pictures are shown as links, so that reading a reply loads nothing.
 */
import { memo } from 'preact/compat';
import type { ComponentChildren, VNode } from 'preact';
import type { MarkedToken, Token, Tokens } from 'marked';
import { CodeBlock } from './code_block';
import { Formula } from './math';
import { isMath, type MathToken } from './math_tokens';
import { parseMarkdown } from './parse';
import { isSafeLink } from './safe_link';

/** Paragraphs, lists and so on; only those whose source changed are rendered again while a reply grows. */
export function Markdown({ text }: { text: string }): VNode {
  const blocks = parseMarkdown(text);
  if (blocks === null) return <div class="markdown plain">{text}</div>;
  return (
    <div class="markdown">
      {blocks.map((block, index) => (
        <Block key={index} block={block} />
      ))}
    </div>
  );
}

const Block = memo(
  ({ block }: { block: MarkedToken }) => <>{renderBlock(block)}</>,
  (before, after) => before.block.raw === after.block.raw && before.block.type === after.block.type,
);

function renderBlock(token: MarkedToken | MathToken): ComponentChildren {
  if (isMath(token)) return <Formula source={token.source} display={token.display} />;
  switch (token.type) {
    case 'heading': {
      // The page's own heading is the first level.
      const Heading = `h${Math.min(token.depth + 1, 6)}` as 'h2';
      return <Heading>{renderInline(token.tokens)}</Heading>;
    }
    case 'paragraph':
      return <p>{renderInline(token.tokens)}</p>;
    case 'code':
      return <CodeBlock text={token.text} language={token.lang ?? ''} />;
    case 'blockquote':
      return <blockquote>{renderBlocks(token.tokens)}</blockquote>;
    case 'list':
      return renderList(token);
    case 'table':
      return renderTable(token);
    case 'hr':
      return <hr />;
    case 'html':
      return <p>{token.raw.trim()}</p>;
    case 'text':
      return token.tokens ? renderInline(token.tokens) : plain(token.text);
    case 'space':
    case 'def':
      return null;
    default:
      return token.raw;
  }
}

function renderBlocks(tokens: Token[]): ComponentChildren {
  return tokens.map((token) => renderBlock(token as MarkedToken));
}

function renderList(list: Tokens.List): VNode {
  const items = list.items.map((item) => (
    <li class={item.task ? 'task' : undefined}>
      {item.task && (
        <input type="checkbox" checked={item.checked} disabled aria-label={item.checked ? 'done' : 'open'} />
      )}
      {renderBlocks(item.tokens)}
    </li>
  ));
  return list.ordered ? <ol start={Number(list.start) || 1}>{items}</ol> : <ul>{items}</ul>;
}

function renderTable(table: Tokens.Table): VNode {
  const cells = (row: Tokens.TableCell[], Cell: 'td' | 'th') =>
    row.map((cell) => (
      <Cell style={cell.align ? { textAlign: cell.align } : undefined}>{renderInline(cell.tokens)}</Cell>
    ));
  return (
    <div class="wide" tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead>
          <tr>{cells(table.header, 'th')}</tr>
        </thead>
        <tbody>
          {table.rows.map((row) => (
            <tr>{cells(row, 'td')}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function renderInline(tokens: Token[]): ComponentChildren {
  return tokens.map((token) => renderSpan(token as MarkedToken));
}

function renderSpan(token: MarkedToken | MathToken): ComponentChildren {
  if (isMath(token)) return <Formula source={token.source} display={token.display} />;
  switch (token.type) {
    case 'strong':
      return <strong>{renderInline(token.tokens)}</strong>;
    case 'em':
      return <em>{renderInline(token.tokens)}</em>;
    case 'del':
      return <del>{renderInline(token.tokens)}</del>;
    case 'codespan':
      return <code>{token.text}</code>;
    case 'br':
      return <br />;
    case 'link':
      return renderLink(token.href, renderInline(token.tokens));
    case 'image':
      return renderLink(token.href, token.text || token.href);
    case 'escape':
      return token.text;
    case 'text':
      return token.tokens ? renderInline(token.tokens) : plain(token.text);
    default:
      return token.raw;
  }
}

function renderLink(href: string, label: ComponentChildren): ComponentChildren {
  if (!isSafeLink(href)) return label;
  return (
    <a href={href} target="_blank" rel="noopener noreferrer nofollow">
      {label}
    </a>
  );
}

/** A story's lines: a single line break stays one. */
function plain(text: string): ComponentChildren {
  const lines = text.split('\n');
  return lines.length === 1 ? text : lines.flatMap((line, index) => (index === 0 ? [line] : [<br />, line]));
}
