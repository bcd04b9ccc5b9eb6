import type { Usage } from '../api/chat_request';

/** What one reply cost; null where it is not known. Times in milliseconds. */
export interface Figures {
  /** From sending to the first token. */
  firstToken: number | null;
  /** From the first token of reasoning to the first after it. */
  reasoning: number | null;
  /** From sending to the end. */
  whole: number | null;
  usage: Usage | null;
  /** Of the prompt, the share that is computed; absent where the server has not said. */
  prefilled?: number;
}

export const kNoFigures: Figures = { firstToken: null, reasoning: null, whole: null, usage: null };

const kThousand = 1000;

export function seconds(ms: number): string {
  if (ms < kThousand) return `${Math.round(ms)} ms`;
  return ms < 60 * kThousand ? `${(ms / kThousand).toFixed(1)} s` : `${Math.round(ms / kThousand)} s`;
}

/** Tokens after the first over the time after the first: the rate of decoding alone. */
export function tokensPerSecond(figures: Figures): number | null {
  const { usage, whole, firstToken } = figures;
  if (!usage || whole === null || firstToken === null) return null;
  const elapsed = whole - firstToken;
  return elapsed > 0 && usage.completion_tokens > 1
    ? ((usage.completion_tokens - 1) * kThousand) / elapsed
    : null;
}

export interface Figure {
  label: string;
  text: string;
}

/** The line under a reply. */
export function figureLine(figures: Figures): Figure[] {
  const { usage, firstToken } = figures;
  const line: Figure[] = [];
  const count = (value: number) => value.toLocaleString('en');
  if (usage) line.push({ label: 'Tokens of the reply', text: `${count(usage.completion_tokens)} tokens` });
  const rate = tokensPerSecond(figures);
  if (rate !== null)
    line.push({ label: 'Rate of decoding', text: `${rate.toFixed(rate < 100 ? 1 : 0)} tokens/s` });
  if (firstToken !== null)
    line.push({ label: 'Time to the first token', text: `first after ${seconds(firstToken)}` });
  if (usage) {
    const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
    line.push({
      label: 'Tokens of the prompt, and how many of them came from the cache',
      text: `prompt ${count(usage.prompt_tokens)}, ${count(cached)} cached`,
    });
    const details = usage.completion_tokens_details;
    const accepted = details?.accepted_prediction_tokens ?? 0;
    const drafted = accepted + (details?.rejected_prediction_tokens ?? 0);
    if (drafted > 0) {
      line.push({
        label: 'Drafted tokens that were accepted',
        text: `${count(accepted)} of ${count(drafted)} drafts`,
      });
    }
  }
  return line;
}
