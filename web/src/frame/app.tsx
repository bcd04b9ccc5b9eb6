import type { VNode } from 'preact';
import { useEffect } from 'preact/hooks';
import { ChatView } from '../chat/chat_view';
import { ConversationList } from '../chat/conversation_list';
import { SettingsPanel } from '../chat/settings_panel';
import { model } from '../chat/chat_session';
import { current } from '../chat/conversation_store';
import { MachineView } from '../machine/machine_view';
import { Banner } from './banner';
import { Help } from './help';
import {
  closeIfNarrow,
  helpOpen,
  kRoomy,
  listOpen,
  openView,
  settingsOpen,
  toggleList,
  toggleSettings,
  view,
  type View,
} from './layout_state';
import { IconButton, Mark } from '../elements/icons';
import { switchTheme, theme } from '../style/theme';

export function App(): VNode {
  const title = view.value === 'chat' ? current.value.title : 'Machine';
  useEffect(() => {
    document.title = `${title} · Baleen`;
  }, [title]);
  return (
    <div class="app">
      <Header />
      <Banner />
      {view.value === 'chat' ? <ChatLayout /> : <MachineView />}
      <Help />
    </div>
  );
}

function Header(): VNode {
  const inChat = view.value === 'chat';
  return (
    <header class="header">
      <div class="header-side">
        {inChat && (
          <IconButton icon="menu" label="Conversations" expanded={listOpen.value} onClick={toggleList} />
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
          icon="help"
          label="Keys and help"
          onClick={() => {
            helpOpen.value = true;
          }}
        />
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
            onClick={toggleSettings}
          />
        )}
      </div>
    </header>
  );
}

function Tab({ of, label }: { of: View; label: string }): VNode {
  return (
    <button type="button" aria-current={view.value === of ? 'page' : undefined} onClick={() => openView(of)}>
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
