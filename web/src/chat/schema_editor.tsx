import type { VNode } from 'preact';
import { changeSettings, settings } from './conversation_store';
import { readSchema } from './settings';

/** The JSON schema that the server holds replies to, and whether it does. */
export function SchemaEditor(): VNode {
  const { schema, schemaOn } = settings.value;
  const read = readSchema(schema);
  return (
    <fieldset>
      <legend>Form of replies</legend>
      <label class="switch">
        <input
          type="checkbox"
          checked={schemaOn}
          onChange={(event) => changeSettings({ schemaOn: event.currentTarget.checked })}
        />
        <span>Reply in JSON, as this schema says</span>
      </label>
      {schemaOn && (
        <textarea
          class="tools-json"
          rows={10}
          spellcheck={false}
          aria-label="JSON schema of replies"
          aria-invalid={typeof read === 'string'}
          value={schema}
          onInput={(event) => changeSettings({ schema: event.currentTarget.value })}
        />
      )}
      {schemaOn && typeof read === 'string' && (
        <p class="invalid" role="status">
          {read} No schema is sent.
        </p>
      )}
    </fieldset>
  );
}
