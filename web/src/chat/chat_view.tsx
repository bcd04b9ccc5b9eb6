import type { VNode } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { isElsewhere, isReplying } from './chat_session';
import { Composer } from './composer';
import { attach } from './composer_draft';
import { childrenOf, pathOf } from './conversation';
import { current } from './conversation_store';
import { kScrollerClass, MessageSlot } from './message_slot';
import { versionsOf } from './version_switch';

/** So close to the end the view follows what arrives. */
const kFollowPx = 60;
/** Messages at the end that are rendered when a conversation opens: more than a screen of short ones. */
const kRenderedAtOnce = 8;

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
      <Composer key={conversation.id} conversationId={conversation.id} />
    </main>
  );
}

function Messages(): VNode {
  const conversation = current.value;
  const path = useMemo(() => pathOf(conversation), [conversation]);
  const children = useMemo(() => childrenOf(conversation), [conversation]);
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
        {path.length === 0 && <Welcome />}
        {path.map((turn, index) => (
          <MessageSlot
            key={`${conversation.id}/${turn.id}`}
            turn={turn}
            isLast={index === path.length - 1}
            isNear={index >= path.length - kRenderedAtOnce}
            {...versionsOf(turn, children.get(turn.parent) ?? [turn])}
          />
        ))}
      </div>
    </div>
  );
}

/** Keeps the end in view while it grows, unless the user has scrolled away; goes there whenever `shown` changes. */
function useFollowing(shown: string) {
  const scroller = useRef<HTMLDivElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const toEnd = () => {
    const element = scroller.current;
    if (element && follows.current) element.scrollTop = element.scrollHeight;
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
    follows.current = element.scrollHeight - element.scrollTop - element.clientHeight < kFollowPx;
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
