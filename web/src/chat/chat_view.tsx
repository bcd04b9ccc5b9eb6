import type { VNode } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { isElsewhere, isReplying } from './chat_session';
import { Composer } from './composer';
import { attach } from './composer_draft';
import { childrenOf, pathOf, type Conversation } from './conversation';
import { current, deletedElsewhere } from './conversation_store';
import { kBlockTurns, kScrollerClass, MessageBlock, type ShownTurn } from './message_block';
import { versionsOf } from './version_switch';

/** So close to the end the view follows what arrives. */
const kFollowPx = 60;
/** Blocks at the end that are rendered when a conversation opens: the last one may have a single message. */
const kBlocksAtOnce = 2;

export function ChatView(): VNode {
  const conversation = current.value;
  const [takesFile, setTakesFile] = useState(false);
  const dropped = (event: DragEvent) => {
    setTakesFile(false);
    if (!event.dataTransfer?.files.length) return;
    event.preventDefault();
    void attach(conversation.id, event.dataTransfer.files);
  };
  return (
    <main
      class={takesFile ? 'chat takes-file' : 'chat'}
      onDragOver={(event) => {
        if (!event.dataTransfer?.types.includes('Files')) return;
        event.preventDefault();
        setTakesFile(true);
      }}
      onDragLeave={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget as Node | null)) setTakesFile(false);
      }}
      onDrop={dropped}
    >
      <Messages />
      {isElsewhere.value && <p class="elsewhere">Another tab of this browser receives this reply.</p>}
      {deletedElsewhere.value !== null && (
        <p class="elsewhere" role="status">
          Another tab deleted “{deletedElsewhere.value}”. What you write begins a new conversation.
        </p>
      )}
      <Composer key={conversation.id} conversationId={conversation.id} />
    </main>
  );
}

function Messages(): VNode {
  const conversation = current.value;
  const blocks = useMemo(() => blocksOf(conversation), [conversation]);
  const [scroller, list, onScroll] = useFollowing(`${conversation.id}/${conversation.turns.length}`);
  return (
    <div
      class={kScrollerClass}
      ref={scroller}
      onScroll={onScroll}
      tabIndex={0}
      role="region"
      aria-label="Conversation"
    >
      <div class="messages" ref={list} role="log" aria-label="Messages" aria-busy={isReplying.value}>
        {blocks.length === 0 && <Welcome />}
        {blocks.map((shown, index) => (
          <MessageBlock
            key={`${conversation.id}/${index}`}
            shown={shown}
            isLast={index === blocks.length - 1}
            isNear={index >= blocks.length - kBlocksAtOnce}
          />
        ))}
      </div>
    </div>
  );
}

/** The path that is shown, from its beginning, in blocks of which only the last one may be shorter. */
function blocksOf(conversation: Conversation): ShownTurn[][] {
  const children = childrenOf(conversation);
  const blocks: ShownTurn[][] = [];
  for (const [index, turn] of pathOf(conversation).entries()) {
    if (index % kBlockTurns === 0) blocks.push([]);
    blocks.at(-1)?.push({ turn, versions: versionsOf(turn, children.get(turn.parent) ?? [turn]) });
  }
  return blocks;
}

/** Keeps the end in view while it grows, unless the user has scrolled away; goes there whenever `shown` changes. */
function useFollowing(shown: string) {
  const scroller = useRef<HTMLDivElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const lastTop = useRef(0);
  const toEnd = () => {
    const element = scroller.current;
    if (!element || !follows.current) return;
    element.scrollTop = element.scrollHeight;
    lastTop.current = element.scrollTop;
  };
  useLayoutEffect(() => {
    follows.current = true;
    toEnd();
  }, [shown]);
  useEffect(() => {
    const observer = new ResizeObserver(toEnd);
    if (list.current) observer.observe(list.current);
    return () => observer.disconnect();
  }, []);
  const onScroll = () => {
    const element = scroller.current;
    if (!element) return;
    // More may have come since the view went to its end: only a way up is the user's.
    const isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < kFollowPx;
    if (isAtEnd) follows.current = true;
    else if (element.scrollTop < lastTop.current) follows.current = false;
    lastTop.current = element.scrollTop;
  };
  return [scroller, list, onScroll] as const;
}

function Welcome(): VNode {
  return (
    <div class="welcome">
      <h2>What shall we begin with?</h2>
      <p>Everything stays between this browser and your server.</p>
    </div>
  );
}
