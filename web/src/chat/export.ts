import { model } from './chat_session';
import type { Conversation } from './conversation';

/** Offers the conversation as a JSON file: all that this page knows of it. */
export function exportConversation(conversation: Conversation): void {
  const text = JSON.stringify({ model: model.value, ...conversation }, null, 2);
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
  link.download = `${fileName(conversation.title)}.json`;
  link.click();
  URL.revokeObjectURL(link.href);
}

/** Letters and digits of any script; everything else is a dash. */
export function fileName(title: string): string {
  return title.replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-+|-+$/g, '') || 'conversation';
}
