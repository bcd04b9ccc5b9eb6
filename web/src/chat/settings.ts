/** What the side panel sets. null: left to the model's own default, and not sent. */
export interface Settings {
  system: string;
  /** off, or an effort; which ones there are depends on the model. */
  thinking: string;
  temperature: number | null;
  topP: number | null;
  topK: number | null;
  minP: number | null;
  maxTokens: number | null;
  seed: number | null;
  presencePenalty: number | null;
  frequencyPenalty: number | null;
  repetitionPenalty: number | null;
  /** Texts that end a reply, one a line, as typed. */
  stop: string;
  /** JSON schema of replies, as typed. */
  schema: string;
  schemaOn: boolean;
  /** JSON of the declarations, as typed. */
  tools: string;
  toolsOn: boolean;
  /** auto, none, required, or the name of a tool. */
  toolChoice: string;
}

export type NumberSetting = {
  [Key in keyof Settings]: Settings[Key] extends number | null ? Key : never;
}[keyof Settings];

export interface NumberControl {
  key: NumberSetting;
  /** The field of the request. */
  field:
    | 'temperature'
    | 'top_p'
    | 'top_k'
    | 'min_p'
    | 'max_tokens'
    | 'seed'
    | 'presence_penalty'
    | 'frequency_penalty'
    | 'repetition_penalty';
  label: string;
  hint: string;
  min: number;
  max: number;
  step: number;
  /** Where the slider stands while nothing is set: the value that changes nothing. Absent: no slider. */
  neutral?: number;
}

const kMostTokens = 1048576;

export const kNumberControls: NumberControl[] = [
  {
    key: 'temperature',
    field: 'temperature',
    label: 'Temperature',
    hint: 'Higher is more varied; 0 always takes the likeliest token.',
    min: 0,
    max: 2,
    step: 0.05,
    neutral: 1,
  },
  {
    key: 'topP',
    field: 'top_p',
    label: 'Top p',
    hint: 'Keeps the likeliest tokens that together reach this probability.',
    min: 0,
    max: 1,
    step: 0.01,
    neutral: 1,
  },
  {
    key: 'minP',
    field: 'min_p',
    label: 'Min p',
    hint: 'Drops tokens less likely than this share of the likeliest.',
    min: 0,
    max: 1,
    step: 0.01,
    neutral: 0,
  },
  {
    key: 'topK',
    field: 'top_k',
    label: 'Top k',
    hint: 'Keeps so many of the likeliest tokens.',
    min: 1,
    max: 1000,
    step: 1,
  },
  {
    key: 'presencePenalty',
    field: 'presence_penalty',
    label: 'Presence penalty',
    hint: 'Above 0, tokens that the reply has already become less likely.',
    min: -2,
    max: 2,
    step: 0.05,
  },
  {
    key: 'frequencyPenalty',
    field: 'frequency_penalty',
    label: 'Frequency penalty',
    hint: 'Above 0, tokens become less likely with each time that the reply has them.',
    min: -2,
    max: 2,
    step: 0.05,
  },
  {
    key: 'repetitionPenalty',
    field: 'repetition_penalty',
    label: 'Repetition penalty',
    hint: 'Above 1, tokens of the prompt and the reply become less likely.',
    min: 0.01,
    max: 100,
    step: 0.01,
  },
  {
    key: 'maxTokens',
    field: 'max_tokens',
    label: 'Longest reply',
    hint: 'In tokens, reasoning included.',
    min: 1,
    max: kMostTokens,
    step: 1,
  },
  {
    key: 'seed',
    field: 'seed',
    label: 'Seed',
    hint: 'The same seed and prompt give the same reply.',
    min: 0,
    max: Number.MAX_SAFE_INTEGER,
    step: 1,
  },
];

export const kExampleTools = JSON.stringify(
  [
    {
      type: 'function',
      function: {
        name: 'get_weather',
        description: 'The weather in a place, now.',
        parameters: {
          type: 'object',
          properties: {
            location: { type: 'string', description: 'A town, such as Lisbon' },
            unit: { type: 'string', enum: ['celsius', 'fahrenheit'] },
          },
          required: ['location'],
        },
      },
    },
  ],
  null,
  2,
);

/** An answer with the reasons for it: something to begin from. */
export const kExampleSchema = JSON.stringify(
  {
    type: 'object',
    properties: { answer: { type: 'string' }, reasons: { type: 'array', items: { type: 'string' } } },
    required: ['answer', 'reasons'],
    additionalProperties: false,
  },
  null,
  2,
);

export const kDefaultSettings: Settings = {
  system: '',
  thinking: 'off',
  temperature: null,
  topP: null,
  topK: null,
  minP: null,
  maxTokens: null,
  seed: null,
  presencePenalty: null,
  frequencyPenalty: null,
  repetitionPenalty: null,
  stop: '',
  schema: kExampleSchema,
  schemaOn: false,
  tools: kExampleTools,
  toolsOn: false,
  toolChoice: 'auto',
};

/** The settings as they were stored: a field that is missing or of another type has its default. */
export function readSettings(stored: unknown): Settings {
  if (typeof stored !== 'object' || stored === null) return kDefaultSettings;
  const fields = stored as Record<string, unknown>;
  const fits = (key: string, otherwise: unknown) =>
    otherwise === null
      ? typeof fields[key] === 'number' && Number.isFinite(fields[key])
      : typeof fields[key] === typeof otherwise;
  const usable = Object.entries(kDefaultSettings).filter(([key, otherwise]) => fits(key, otherwise));
  const read = Object.fromEntries(usable.map(([key]) => [key, fields[key]]));
  return { ...kDefaultSettings, ...read };
}

/** The effort that is set, or the least where this model has no such; off stays off. */
export function thinkingOf(set: string, efforts: readonly string[]): string {
  return set === 'off' || efforts.includes(set) ? set : (efforts[0] ?? 'off');
}

/** The number typed, brought into range; null when nothing usable was typed. */
export function readNumber(text: string, control: NumberControl): number | null {
  if (text.trim() === '') return null;
  const value = Number(text);
  if (!Number.isFinite(value)) return null;
  const inRange = Math.min(Math.max(value, control.min), control.max);
  return Number.isInteger(control.step) ? Math.round(inRange) : inRange;
}

/** The texts that end a reply, one a line: \n, \t and \\ stand for a line break, a tab and a backslash. */
export function readStops(text: string): string[] {
  const kEscapes: Record<string, string> = { n: '\n', t: '\t', '\\': '\\' };
  const read = (line: string) =>
    line.replace(/\\([nt\\])/g, (_, letter: string) => kEscapes[letter] ?? letter);
  return [
    ...new Set(
      text
        .split('\n')
        .filter((line) => line !== '')
        .map(read),
    ),
  ];
}

/** The schema, or a sentence that says what is wrong with it. */
export function readSchema(text: string): object | string {
  let schema: unknown;
  try {
    schema = JSON.parse(text);
  } catch (error) {
    return `Not JSON: ${(error as Error).message}`;
  }
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema))
    return 'Expected an object, { … }, that is a JSON schema.';
  return schema;
}

export interface Declarations {
  tools: unknown[];
  names: string[];
}

/** The declarations, or a sentence that says what is wrong with them. */
export function readTools(text: string): Declarations | string {
  let tools: unknown;
  try {
    tools = JSON.parse(text);
  } catch (error) {
    return `Not JSON: ${(error as Error).message}`;
  }
  if (!Array.isArray(tools)) return 'Expected a list, [ … ], of tool declarations.';
  const names: string[] = [];
  for (const [index, tool] of tools.entries()) {
    const name: unknown = (tool as { function?: { name?: unknown } } | null)?.function?.name;
    if (typeof name !== 'string' || name === '') return `Declaration ${index + 1} has no function.name.`;
    names.push(name);
  }
  return { tools, names };
}
