/** Tools as a server of the Model Context Protocol lists them, and what they say. Nothing here is trusted. */
export interface McpTool {
  name: string;
  description: string;
  /** JSON schema of its arguments. */
  schema: Record<string, unknown>;
}

const kMostDescription = 8000;
/** Of what a tool says; some 50,000 tokens. */
export const kMostResult = 200_000;

type Fields = Record<string, unknown>;
const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Null for what has no name. */
export function readTool(value: unknown): McpTool | null {
  if (!isFields(value) || typeof value.name !== 'string' || value.name === '') return null;
  return {
    name: value.name,
    description: typeof value.description === 'string' ? value.description.slice(0, kMostDescription) : '',
    schema: isFields(value.inputSchema) ? value.inputSchema : { type: 'object' },
  };
}

/** The result of a call as text: what is no text is named. */
export function resultText(result: Fields): string {
  const blocks = Array.isArray(result.content) ? result.content.filter(isFields).map(blockText) : [];
  if (blocks.length === 0 && result.structuredContent !== undefined)
    blocks.push(JSON.stringify(result.structuredContent));
  const text = blocks.join('\n') || '(nothing)';
  const whole = result.isError === true ? `Error: ${text}` : text;
  if (whole.length <= kMostResult) return whole;
  return `${whole.slice(0, kMostResult)}\n[cut here: the tool said ${whole.length} characters]`;
}

function blockText(block: Fields): string {
  const resource = isFields(block.resource) ? block.resource : {};
  if (block.type === 'text') return String(block.text ?? '');
  if (block.type === 'resource' && typeof resource.text === 'string') return resource.text;
  if (block.type === 'resource_link') return String(block.uri ?? '');
  return `[${String(block.type)}, ${String(block.mimeType ?? resource.mimeType ?? 'of no known kind')}]`;
}

/** The name by which a model may call a tool: of the characters that its format allows, and unlike those `taken`. */
export function callableName(name: string, taken: ReadonlySet<string>): string {
  const kMostName = 64;
  const base = name.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, kMostName);
  let callable = base;
  for (let number = 2; taken.has(callable); number += 1) {
    const end = `_${number}`;
    callable = base.slice(0, kMostName - end.length) + end;
  }
  return callable;
}
