import { render } from 'preact';
import { greet } from './chat/chat_session';
import { persist } from './chat/conversation_store';
import { App } from './frame/app';
import { watchConnection } from './api/connection';
import { applyTheme } from './style/theme';
import './style/base.css';
import './style/layout.css';
import './style/chat.css';
import './style/markdown.css';
import './style/machine.css';

applyTheme();
persist();
watchConnection(() => void greet());
void greet();
render(<App />, document.getElementById('app') as HTMLElement);
