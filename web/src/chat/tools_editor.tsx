import type { VNode } from 'preact';
import { changeSettings, settings } from './conversation_store';
import { kExampleTools, readTools } from './settings';

/** The tools that the model may call, as JSON, and whether it must. */
export function ToolsEditor(): VNode {
  const { tools, toolsOn, toolChoice } = settings.value;
  const read = readTools(tools);
  const names = typeof read === 'string' ? [] : read.names;
  return (
    <fieldset>
      <legend>Tools</legend>
      <label class="switch">
        <input
          type="checkbox"
          checked={toolsOn}
          onChange={(event) => changeSettings({ toolsOn: event.currentTarget.checked })}
        />
        <span>Offer tools to the model</span>
      </label>
      {toolsOn && (
        <>
          <textarea
            class="tools-json"
            rows={12}
            spellcheck={false}
            aria-label="Tool declarations, JSON"
            aria-invalid={typeof read === 'string'}
            value={tools}
            onInput={(event) => changeSettings({ tools: event.currentTarget.value })}
          />
          {typeof read === 'string' && (
            <p class="invalid" role="status">
              {read} No tools are sent.
            </p>
          )}
          <div class="row">
            <label for="tool-choice">Use</label>
            <select
              id="tool-choice"
              value={toolChoice}
              onChange={(event) => changeSettings({ toolChoice: event.currentTarget.value })}
            >
              <option value="auto">as the model likes</option>
              <option value="none">never</option>
              <option value="required">always one</option>
              {names.map((name) => (
                <option key={name} value={name}>
                  always {name}
                </option>
              ))}
            </select>
          </div>
          {tools !== kExampleTools && (
            <button type="button" class="quiet" onClick={() => changeSettings({ tools: kExampleTools })}>
              Back to the example
            </button>
          )}
        </>
      )}
    </fieldset>
  );
}
