import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { CopyButton } from '../elements/copy_button';
import { IconButton } from '../elements/icons';
import { isBusy, resay } from './chat_session';
import type { Turn, UserMessage } from './conversation';
import { FileChips } from './file_chips';
import { TextEditor } from './text_editor';
import { TurnMenu } from './turn_menu';
import { VersionSwitch, type Versions } from './version_switch';

interface UserMessageProps {
  turn: Turn;
  message: UserMessage;
  versions: Versions;
}

export function UserMessageView({ turn, message, versions }: UserMessageProps): VNode {
  const [isEdited, setIsEdited] = useState(false);
  if (isEdited) {
    return (
      <TextEditor
        text={message.text}
        label="Edit your message"
        note="What followed stays as another version."
        enterIsDone
        done={{
          label: 'Send',
          act: (text) => {
            setIsEdited(false);
            resay(turn.id, text);
          },
        }}
        onCancel={() => setIsEdited(false)}
      />
    );
  }
  return (
    <article class="said" aria-label="You">
      <FileChips files={message.files ?? []} />
      {message.text && <p class="said-text">{message.text}</p>}
      <div class="said-foot">
        <div class="actions">
          <time dateTime={new Date(turn.at).toISOString()}>{new Date(turn.at).toLocaleString()}</time>
          <CopyButton text={message.text} label="Copy this message" />
          <IconButton
            icon="pencil"
            label="Edit this message"
            disabled={isBusy.value}
            onClick={() => setIsEdited(true)}
          />
          <TurnMenu id={turn.id} of="message" />
        </div>
        <VersionSwitch versions={versions} of="message" />
      </div>
    </article>
  );
}
