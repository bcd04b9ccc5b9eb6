import type { VNode } from 'preact';
import { memo } from 'preact/compat';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Turn } from './conversation';
import { observeNear } from './near_view';
import { ReplyView } from './reply_view';
import { UserMessageView } from './user_message_view';
import type { Versions } from './version_switch';

/** Messages of a block: few enough that rendering one is quick, many enough that a long conversation has few blocks. */
export const kBlockTurns = 4;
/** For the estimate of a height: characters of a line, and its pixels. */
const kLineLength = 80;
const kLinePx = 26;
const kMessagePx = 60;
/** Of one message: a block of long ones is laid out when it is seen anyway. */
const kMostLines = 80;

export const kScrollerClass = 'scroller';

export interface ShownTurn {
  turn: Turn;
  versions: Versions;
}

interface MessageBlockProps {
  shown: ShownTurn[];
  /** The conversation ends with it. */
  isLast: boolean;
  /** Rendered at once: it is close to the end, where a conversation opens. */
  isNear: boolean;
}

/**
 * A few messages that follow each other. A block that has come close to the visible part of the conversation once is
 * rendered; until then it is one element with the plain text of its messages, which the browser lays out only when it
 * is searched for. So what a conversation costs to open is what is seen of it.
 */
export const MessageBlock = memo(({ shown, isLast, isNear }: MessageBlockProps): VNode => {
  const [wasNear, setWasNear] = useState(isNear);
  const ref = useRef<HTMLDivElement>(null);
  const rendered = wasNear || isNear;
  useLayoutEffect(() => {
    const root = ref.current?.closest(`.${kScrollerClass}`);
    if (rendered || !ref.current || !root) return undefined;
    return observeNear(root, ref.current, () => setWasNear(true));
  }, [rendered]);

  if (!rendered) {
    return (
      <div ref={ref} class="far" style={{ containIntrinsicBlockSize: `auto ${estimatedPx(shown)}px` }}>
        {shown.map(({ turn }) => turn.message.text).join('\n\n')}
      </div>
    );
  }
  return (
    <>
      {shown.map(({ turn, versions }, index) => (
        <MessageSlot key={turn.id} turn={turn} isLast={isLast && index === shown.length - 1} {...versions} />
      ))}
    </>
  );
}, isSameBlock);

function isSameBlock(before: MessageBlockProps, after: MessageBlockProps): boolean {
  return (
    before.isLast === after.isLast &&
    before.isNear === after.isNear &&
    before.shown.length === after.shown.length &&
    before.shown.every(({ turn, versions }, index) => {
      const other = after.shown[index] as ShownTurn;
      return (
        turn === other.turn &&
        versions.position === other.versions.position &&
        versions.count === other.versions.count &&
        versions.previous === other.versions.previous &&
        versions.next === other.versions.next
      );
    })
  );
}

const MessageSlot = memo(
  ({ turn, isLast, ...versions }: Versions & { turn: Turn; isLast: boolean }): VNode =>
    turn.message.role === 'user' ? (
      <UserMessageView turn={turn} message={turn.message} versions={versions} />
    ) : (
      <ReplyView id={turn.id} reply={turn.message} isLast={isLast} versions={versions} />
    ),
);

function estimatedPx(shown: readonly ShownTurn[]): number {
  return shown.reduce((sum, { turn }) => sum + kMessagePx + estimatedLines(turn.message.text) * kLinePx, 0);
}

function estimatedLines(text: string): number {
  let breaks = 0;
  for (let at = text.indexOf('\n'); at >= 0 && breaks < kMostLines; at = text.indexOf('\n', at + 1))
    breaks += 1;
  return Math.min(kMostLines, Math.max(breaks + 1, Math.ceil(text.length / kLineLength)));
}
