import type { VNode } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { isReplying, stop } from './chat_session';
import { Composer } from './composer';
import { current } from './conversation_store';
import { ReplyView } from './reply_view';
import { UserMessageView } from './user_message_view';

/** So close to the end the view follows what arrives. */
const kFollowPx = 60;

export function ChatView(): VNode {
  const conversation = current.value;
  const scroller = useRef<HTMLDivElement>(null);
  const follows = useRef(true);

  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key === 'Escape' && isReplying.value) stop();
    };
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, []);

  const toEnd = () => {
    const element = scroller.current;
    if (element) element.scrollTop = element.scrollHeight;
  };
  const count = conversation.messages.length;
  useLayoutEffect(() => {
    follows.current = true;
    toEnd();
  }, [conversation.id, count]);
  useLayoutEffect(() => {
    if (follows.current) toEnd();
  });

  const onScroll = () => {
    const element = scroller.current;
    if (!element) return;
    follows.current = element.scrollHeight - element.scrollTop - element.clientHeight < kFollowPx;
  };

  return (
    <main class="chat">
      <div class="scroller" ref={scroller} onScroll={onScroll}>
        <div class="messages" role="log" aria-label="Conversation" aria-busy={isReplying.value}>
          {count === 0 && <Welcome />}
          {conversation.messages.map((message, index) => {
            const key = `${conversation.id}/${index}`;
            return message.role === 'user' ? (
              <UserMessageView key={key} message={message} index={index} />
            ) : (
              <ReplyView key={key} reply={message} index={index} isLast={index === count - 1} />
            );
          })}
        </div>
      </div>
      <Composer key={conversation.id} conversationId={conversation.id} />
    </main>
  );
}

function Welcome(): VNode {
  return (
    <div class="welcome">
      <h2>What shall we begin with?</h2>
      <p>Everything stays between this browser and your server.</p>
    </div>
  );
}
