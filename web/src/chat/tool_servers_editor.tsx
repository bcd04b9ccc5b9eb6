import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { IconButton } from '../elements/icons';
import {
  addToolServer,
  connectionOf,
  reconnect,
  removeToolServer,
  switchToolServer,
  toolServers,
  type ToolServer,
} from './tool_servers';

/** The MCP servers whose tools the model may ask to be run. */
export function ToolServersEditor(): VNode {
  return (
    <fieldset>
      <legend>Tool servers (MCP)</legend>
      {toolServers.value.length > 0 && (
        <ul class="servers" aria-label="Tool servers">
          {toolServers.value.map((server) => (
            <ServerEntry key={server.url} server={server} />
          ))}
        </ul>
      )}
      <AddServer />
    </fieldset>
  );
}

function ServerEntry({ server }: { server: ToolServer }): VNode {
  const { url, on } = server;
  const connection = connectionOf(server);
  return (
    <li>
      <label class="switch">
        <input
          type="checkbox"
          checked={on}
          onChange={(event) => switchToolServer(url, event.currentTarget.checked)}
        />
        <span>{url}</span>
      </label>
      <IconButton icon="again" label={`Ask ${url} again`} disabled={!on} onClick={() => reconnect(server)} />
      <IconButton icon="bin" label={`Remove ${url}`} onClick={() => removeToolServer(url)} />
      {connection && (
        <p class={connection.trouble === null ? 'server-state' : 'invalid'} role="status">
          {connection.trouble ?? (connection.tools === null ? 'Asking' : toolList(connection.tools))}
        </p>
      )}
    </li>
  );
}

function toolList(tools: readonly { name: string }[]): string {
  if (tools.length === 0) return 'It has no tools.';
  return `${tools.length} ${tools.length === 1 ? 'tool' : 'tools'}: ${tools.map(({ name }) => name).join(', ')}`;
}

function AddServer(): VNode {
  const [url, setUrl] = useState('');
  const [token, setToken] = useState('');
  const [trouble, setTrouble] = useState<string | null>(null);
  const add = () => {
    const problem = addToolServer(url, token);
    setTrouble(problem);
    if (problem !== null) return;
    setUrl('');
    setToken('');
  };
  return (
    <form
      class="add-server"
      onSubmit={(event) => {
        event.preventDefault();
        add();
      }}
    >
      <input
        type="text"
        inputMode="url"
        aria-label="Address of a tool server"
        placeholder="http://localhost:3000/mcp"
        value={url}
        onInput={(event) => setUrl(event.currentTarget.value)}
      />
      <input
        type="password"
        autocomplete="off"
        aria-label="Token for the tool server"
        placeholder="Token, if it wants one"
        value={token}
        onInput={(event) => setToken(event.currentTarget.value)}
      />
      <button type="submit" disabled={url.trim() === ''}>
        Add server
      </button>
      {trouble !== null && (
        <p class="invalid" role="alert">
          {trouble}
        </p>
      )}
    </form>
  );
}
