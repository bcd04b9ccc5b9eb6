import type { VNode } from 'preact';
import { apiKey } from '../api/api_key';
import { efforts, greet, thinking } from './chat_session';
import { changeSettings, current, keep, settings } from './conversation_store';
import { kDefaultSettings, kNumberControls, readNumber, type NumberControl } from './settings';
import { SchemaEditor } from './schema_editor';
import { ToolServersEditor } from './tool_servers_editor';
import { syncWithServer } from './server_copies';
import { ToolsEditor } from './tools_editor';

const labelOf = (effort: string): string => effort.charAt(0).toUpperCase() + effort.slice(1);

/** All of sampling, back to the model's own. */
function reset(): void {
  changeSettings({
    stop: kDefaultSettings.stop,
    ...Object.fromEntries(kNumberControls.map(({ key }) => [key, kDefaultSettings[key]])),
  });
}

/** Left empty, the prompt for all conversations holds. */
function setSystem(text: string): void {
  keep({ ...current.value, system: text === '' ? null : text, changed: Date.now() });
}

export function SettingsPanel(): VNode {
  return (
    <aside class="panel settings" aria-label="Settings">
      <fieldset>
        <legend>Thinking</legend>
        <div class="choice">
          {['off', ...efforts.value].map((value) => (
            <label key={value}>
              <input
                type="radio"
                name="thinking"
                checked={thinking.value === value}
                onChange={() => changeSettings({ thinking: value })}
              />
              <span>{labelOf(value)}</span>
            </label>
          ))}
        </div>
      </fieldset>
      <fieldset>
        <legend>Sampling</legend>
        {kNumberControls.map((control) => (
          <NumberField key={control.key} control={control} />
        ))}
        <label class="field" title="A reply ends before the first of these texts.">
          <span>Stop strings, one a line; \n is a line break</span>
          <textarea
            rows={2}
            spellcheck={false}
            aria-label="Stop strings"
            placeholder="None"
            value={settings.value.stop}
            onInput={(event) => changeSettings({ stop: event.currentTarget.value })}
          />
        </label>
        <button type="button" class="quiet" onClick={reset}>
          Reset
        </button>
      </fieldset>
      <fieldset>
        <legend>System prompt</legend>
        <label class="field">
          <span>For all conversations</span>
          <textarea
            rows={3}
            aria-label="System prompt"
            placeholder="None"
            value={settings.value.system}
            onInput={(event) => changeSettings({ system: event.currentTarget.value })}
          />
        </label>
        <label class="field">
          <span>For this conversation instead</span>
          <textarea
            rows={3}
            aria-label="System prompt of this conversation"
            placeholder="The one above"
            value={current.value.system ?? ''}
            onInput={(event) => setSystem(event.currentTarget.value)}
          />
        </label>
      </fieldset>
      <SchemaEditor />
      <ToolsEditor />
      <ToolServersEditor />
      <fieldset>
        <legend>API key</legend>
        <form onSubmit={(event) => event.preventDefault()}>
          <input
            type="password"
            autocomplete="off"
            aria-label="API key"
            placeholder="None"
            value={apiKey.value}
            onChange={(event) => {
              apiKey.value = event.currentTarget.value.trim();
              void greet();
              void syncWithServer();
            }}
          />
        </form>
      </fieldset>
      <p class="settings-foot">
        <a href="/notices.txt" target="_blank" rel="noopener">
          Third-party notices
        </a>
      </p>
    </aside>
  );
}

/** A number, typed or slid; left empty, the model's own default holds. */
function NumberField({ control }: { control: NumberControl }): VNode {
  const { key, label, hint, min, max, step, neutral } = control;
  const value = settings.value[key];
  const set = (text: string) => changeSettings({ [key]: readNumber(text, control) });
  return (
    <div class="number" title={hint}>
      <label for={`setting-${key}`}>{label}</label>
      <input
        id={`setting-${key}`}
        type="number"
        inputMode="decimal"
        min={min}
        max={max}
        step={step}
        value={value ?? ''}
        placeholder="default"
        onChange={(event) => {
          set(event.currentTarget.value);
          // What was out of range is shown as it was taken.
          event.currentTarget.value = String(settings.value[key] ?? '');
        }}
      />
      {neutral !== undefined && (
        <input
          type="range"
          class={value === null ? 'unset' : ''}
          aria-label={`${label}, slider`}
          min={min}
          max={max}
          step={step}
          value={value ?? neutral}
          onInput={(event) => set(event.currentTarget.value)}
        />
      )}
    </div>
  );
}
