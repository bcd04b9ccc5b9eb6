/** The body of POST /v1/chat/completions, as far as this page uses it. */
export interface ChatRequest {
  model: string;
  messages: ApiMessage[];
  stream: true;
  stream_options: { include_usage: true; include_progress: true };
  temperature?: number;
  top_p?: number;
  top_k?: number;
  min_p?: number;
  max_tokens?: number;
  seed?: number;
  presence_penalty?: number;
  frequency_penalty?: number;
  repetition_penalty?: number;
  stop?: string[];
  response_format?: { type: 'json_schema'; json_schema: { name: string; schema: object; strict: true } };
  thinking: { type: 'enabled' | 'disabled' };
  reasoning_effort?: string;
  tools?: unknown[];
  tool_choice?: 'auto' | 'none' | 'required' | { type: 'function'; function: { name: string } };
}

export type ApiMessage =
  | { role: 'system' | 'user'; content: string }
  | {
      role: 'assistant';
      content: string | null;
      reasoning_content?: string;
      tool_calls?: ApiToolCall[];
      /** The last message: go on where it ends. */
      prefix?: true;
    }
  | { role: 'tool'; tool_call_id: string; content: string };

export interface ApiToolCall {
  id: string;
  type: 'function';
  function: { name: string; arguments: string };
}

/** One event of the answer. */
export interface ChatChunk {
  choices?: { delta?: ChatDelta; finish_reason?: string | null }[];
  usage?: Usage | null;
  /** Only with include_progress: how much of the prompt is computed. */
  progress?: { prefilled_tokens: number; prompt_tokens: number };
  error?: { message?: string };
}

export interface ChatDelta {
  content?: string | null;
  reasoning_content?: string | null;
  tool_calls?: { index: number; id?: string; function?: { name?: string; arguments?: string } }[];
}

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  prompt_tokens_details?: { cached_tokens?: number };
  completion_tokens_details?: {
    reasoning_tokens?: number;
    accepted_prediction_tokens?: number;
    rejected_prediction_tokens?: number;
  };
}
