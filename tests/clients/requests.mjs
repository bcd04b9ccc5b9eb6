// What both clients' tests ask of the bundled model. It is tiny, so they check facts of the protocols, not wit; where a
// reply must have a form, the server's grammar holds the model to it.

/** Ends what hangs: no test depends on the speed of the machine. */
export const PATIENCE_MS = 500_000;
export const TEST = { timeout: 600_000 };

/** The name under which the bundled model is served: its folder's. */
export const MODEL = 'stories';
/** A small cache, so that a prompt can soon be too long for it. */
export const SERVER_OPTIONS = ['--context', '4096', '--max-sequences', '8', '--quiet'];

/** Makes the bundled model repeat itself, and the server notice it early. */
export const LOOP = { repetition_penalty: 0.05, repetition_detection: { min_tokens: 60 } };

export const WEATHER = {
  name: 'get_weather',
  description: 'Current weather of a city',
  parameters: {
    type: 'object',
    properties: { city: { type: 'string', maxLength: 20 } },
    required: ['city'],
    additionalProperties: false,
  },
};

export const ADD = {
  name: 'add',
  description: 'Adds two numbers',
  parameters: {
    type: 'object',
    properties: { a: { type: 'integer' }, b: { type: 'integer' } },
    required: ['a', 'b'],
    additionalProperties: false,
  },
};

/** A schema whose replies are short whatever the model does. */
export const HERO = {
  type: 'object',
  properties: {
    hero: { type: 'string', maxLength: 20 },
    kind: { enum: ['fox', 'bear', 'mouse'] },
    brave: { type: 'boolean' },
  },
  required: ['hero', 'kind', 'brave'],
  additionalProperties: false,
};

/** A text whose prompt fills several pages of the prefix cache. */
export const LONG_TEXT = 'The fox walked to the river and the bear followed. '.repeat(60);

/** More words than the model's context has tokens; `model` is what the server says of it. */
export function tooLong(model) {
  return 'fox '.repeat(model.max_model_len);
}

export function checkHero(assert, text) {
  const value = JSON.parse(text);
  assert.deepEqual(Object.keys(value), ['hero', 'kind', 'brave']);
  assert.equal(typeof value.hero, 'string');
  assert.ok(HERO.properties.kind.enum.includes(value.kind));
  assert.equal(typeof value.brave, 'boolean');
}

/** Of the schema of `function_`, whose properties are all required. */
export function checkArguments(assert, function_, value) {
  const { properties } = function_.parameters;
  assert.deepEqual(Object.keys(value).sort(), Object.keys(properties).sort());
  for (const [name, { type }] of Object.entries(properties)) {
    assert.equal(typeof value[name], type === 'string' ? 'string' : 'number');
  }
}
