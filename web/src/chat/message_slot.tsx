import type { VNode } from 'preact';
import { memo } from 'preact/compat';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Message, Turn } from './conversation';
import { observeNear } from './near_view';
import { ReplyView } from './reply_view';
import { UserMessageView } from './user_message_view';
import type { Versions } from './version_switch';

/** For the estimate of a height: characters of a line, and its pixels. */
const kLineLength = 80;
const kLinePx = 26;
const kLeastPx = 60;
const kMostPx = 2000;

export const kScrollerClass = 'scroller';

interface MessageSlotProps extends Versions {
  turn: Turn;
  isLast: boolean;
  /** Rendered at once: it is close to the end, where a conversation opens. */
  isNear: boolean;
}

/**
 * A message that has come close to the visible part of the conversation once is rendered; until then it stands there as
 * plain text that the browser lays out only when it is searched for.
 */
export const MessageSlot = memo(({ turn, isLast, isNear, ...versions }: MessageSlotProps): VNode => {
  const [wasNear, setWasNear] = useState(isNear);
  const ref = useRef<HTMLElement>(null);
  const rendered = wasNear || isNear;
  useLayoutEffect(() => {
    const root = ref.current?.closest(`.${kScrollerClass}`);
    if (rendered || !ref.current || !root) return undefined;
    return observeNear(root, ref.current, () => setWasNear(true));
  }, [rendered]);

  const { message } = turn;
  if (!rendered) {
    const isUser = message.role === 'user';
    return (
      <article
        ref={ref}
        class={isUser ? 'said far' : 'reply far'}
        aria-label={isUser ? 'You' : 'Reply'}
        style={{ containIntrinsicBlockSize: `auto ${estimatedPx(message)}px` }}
      >
        {message.text}
      </article>
    );
  }
  return message.role === 'user' ? (
    <UserMessageView turn={turn} message={message} versions={versions} />
  ) : (
    <ReplyView id={turn.id} reply={message} isLast={isLast} versions={versions} />
  );
});

function estimatedPx(message: Message): number {
  const lines = message.text
    .split('\n')
    .reduce((sum, line) => sum + Math.max(1, Math.ceil(line.length / kLineLength)), 0);
  return Math.min(kMostPx, kLeastPx + lines * kLinePx);
}
