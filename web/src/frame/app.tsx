import type { VNode } from 'preact';
import { signal } from '@preact/signals';
import { ChatView } from '../chat/chat_view';
import { ConversationList } from '../chat/conversation_list';
import { SettingsPanel } from '../chat/settings_panel';
import { model } from '../chat/chat_session';
import { MachineView } from '../machine/machine_view';
import { Banner } from './banner';
import { IconButton, Mark } from '../elements/icons';
import { switchTheme, theme } from '../style/theme';

type View = 'chat' | 'machine';

/** Wide enough for the list of conversations beside the chat; the same width as in layout.css. */
const kRoomy = matchMedia('(min-width: 60rem)');
const kMachineHash = '#machine';

const view = signal<View>(location.hash === kMachineHash ? 'machine' : 'chat');
const listOpen = signal(kRoomy.matches);
const settingsOpen = signal(false);

function open(next: View): void {
  view.value = next;
  history.replaceState(null, '', next === 'machine' ? kMachineHash : location.pathname);
}

/** On a narrow screen the panels lie over the chat, one at a time. */
function toggle(panel: typeof listOpen, other: typeof listOpen): void {
  panel.value = !panel.value;
  if (!kRoomy.matches && panel.value) other.value = false;
}

function closeIfNarrow(): void {
  if (kRoomy.matches) return;
  listOpen.value = false;
  settingsOpen.value = false;
}

export function App(): VNode {
  return (
    <div class="app">
      <Header />
      <Banner />
      {view.value === 'chat' ? <ChatLayout /> : <MachineView />}
    </div>
  );
}

function Header(): VNode {
  const inChat = view.value === 'chat';
  return (
    <header class="header">
      <div class="header-side">
        {inChat && (
          <IconButton
            icon="menu"
            label="Conversations"
            expanded={listOpen.value}
            onClick={() => toggle(listOpen, settingsOpen)}
          />
        )}
        <h1 class="brand">
          <Mark />
          <span>Baleen</span>
        </h1>
      </div>
      <nav class="tabs" aria-label="Views">
        <Tab of="chat" label="Chat" />
        <Tab of="machine" label="Machine" />
      </nav>
      <div class="header-side header-end">
        <span class="model-name" title="The model that answers">
          {model.value}
        </span>
        <IconButton
          icon={theme.value === 'dark' ? 'sun' : 'moon'}
          label={theme.value === 'dark' ? 'Light theme' : 'Dark theme'}
          onClick={switchTheme}
        />
        {inChat && (
          <IconButton
            icon="sliders"
            label="Settings"
            expanded={settingsOpen.value}
            onClick={() => toggle(settingsOpen, listOpen)}
          />
        )}
      </div>
    </header>
  );
}

function Tab({ of, label }: { of: View; label: string }): VNode {
  return (
    <button type="button" aria-current={view.value === of ? 'page' : undefined} onClick={() => open(of)}>
      {label}
    </button>
  );
}

function ChatLayout(): VNode {
  const covered = !kRoomy.matches && (listOpen.value || settingsOpen.value);
  return (
    <div class="chat-layout">
      {listOpen.value && <ConversationList onOpen={closeIfNarrow} />}
      <ChatView />
      {settingsOpen.value && <SettingsPanel />}
      {covered && <button type="button" class="veil" aria-label="Close the panel" onClick={closeIfNarrow} />}
    </div>
  );
}
