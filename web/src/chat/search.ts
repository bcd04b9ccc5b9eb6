/** Looks for words in conversations: in titles and in everything that was said, in any version. */
import type { Conversation } from './conversation';

export interface Finding {
  conversation: Conversation;
  /** Where it was found, the match between `before` and `after`; null when the title has it. */
  excerpt: { before: string; match: string; after: string } | null;
}

const kBefore = 24;
const kAfter = 60;

/** In the order of `conversations`; all of them when the query is empty. */
export function search(conversations: readonly Conversation[], query: string): Finding[] {
  const words = query.trim().replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  if (words === '') return conversations.map((conversation) => ({ conversation, excerpt: null }));
  const pattern = new RegExp(words.replace(/\s+/g, '\\s+'), 'iu');
  const findings: Finding[] = [];
  for (const conversation of conversations) {
    if (pattern.test(conversation.title)) {
      findings.push({ conversation, excerpt: null });
      continue;
    }
    const excerpt = firstExcerpt(conversation, pattern);
    if (excerpt) findings.push({ conversation, excerpt });
  }
  return findings;
}

function firstExcerpt(conversation: Conversation, pattern: RegExp): Finding['excerpt'] {
  for (const { message } of conversation.turns) {
    const found = pattern.exec(message.text);
    if (!found) continue;
    const end = found.index + found[0].length;
    return {
      before: message.text.slice(Math.max(0, found.index - kBefore), found.index),
      match: found[0],
      after: message.text.slice(end, end + kAfter),
    };
  }
  return null;
}
