import type { ChatChunk, Usage } from '../api/chat_request';
import type { Ending, Reply } from './conversation';
import { kNoFigures } from './figures';

export const kEmptyReply: Reply = {
  role: 'assistant',
  reasoning: '',
  text: '',
  calls: [],
  ending: null,
  failure: null,
  figures: kNoFigures,
};

const kEndings: Record<string, Ending> = {
  stop: 'stop',
  length: 'length',
  repetition: 'repetition',
  tool_calls: 'tool_calls',
};

/** Grows a reply from the chunks of its stream. `elapsed` is the time since sending, in milliseconds. */
export class ReplyBuilder {
  private reply: Reply;
  private reasoningBegan: number | null = null;

  /** `base`: a reply that was cut short and goes on; its figures grow with the new ones. */
  constructor(private readonly base: Reply = kEmptyReply) {
    this.reply = { ...base, ending: null, failure: null };
  }

  get current(): Reply {
    return this.reply;
  }

  add(chunk: ChatChunk, elapsed: number): void {
    if (chunk.usage) this.note({ usage: this.added(chunk.usage) });
    if (chunk.progress && chunk.progress.prompt_tokens > 0)
      this.note({ prefilled: chunk.progress.prefilled_tokens / chunk.progress.prompt_tokens });
    const choice = chunk.choices?.[0];
    if (!choice) return;
    const { content, reasoning_content: reasoning, tool_calls: calls } = choice.delta ?? {};
    if (content || reasoning || calls?.length) {
      if (this.reply.figures.firstToken === null) this.note({ firstToken: elapsed });
    }
    if (reasoning) {
      this.reasoningBegan ??= elapsed;
      this.reply = { ...this.reply, reasoning: this.reply.reasoning + reasoning };
    }
    if (content || calls?.length) this.endReasoning(elapsed);
    if (content) this.reply = { ...this.reply, text: this.reply.text + content };
    for (const call of calls ?? []) this.addToCall(call);
    if (choice.finish_reason) {
      this.endReasoning(elapsed);
      this.reply = { ...this.reply, ending: kEndings[choice.finish_reason] ?? 'stop' };
    }
  }

  /** The stream is over; `failure` says why when it was not the model that ended it. */
  finish(elapsed: number, cut?: { ending: 'stopped' | 'failed'; failure: string | null }): Reply {
    this.endReasoning(elapsed);
    this.note({ whole: (this.base.figures.whole ?? 0) + elapsed });
    this.reply = { ...this.reply, ending: this.reply.ending ?? 'stop', ...cut };
    return this.reply;
  }

  /** The prompt is that of the beginning; what was generated is counted together. */
  private added(usage: Usage): Usage {
    const before = this.base.figures.usage;
    if (!before) return usage;
    return { ...before, completion_tokens: before.completion_tokens + usage.completion_tokens };
  }

  private note(figures: Partial<Reply['figures']>): void {
    this.reply = { ...this.reply, figures: { ...this.reply.figures, ...figures } };
  }

  private endReasoning(elapsed: number): void {
    if (this.reasoningBegan === null || this.reply.figures.reasoning !== null) return;
    this.note({ reasoning: elapsed - this.reasoningBegan });
  }

  private addToCall(delta: {
    index: number;
    id?: string;
    function?: { name?: string; arguments?: string };
  }): void {
    const calls = [...this.reply.calls];
    const call = calls[delta.index] ?? { id: `call_${delta.index}`, name: '', arguments: '', result: null };
    calls[delta.index] = {
      ...call,
      id: delta.id ?? call.id,
      name: call.name + (delta.function?.name ?? ''),
      arguments: call.arguments + (delta.function?.arguments ?? ''),
    };
    this.reply = { ...this.reply, calls };
  }
}
