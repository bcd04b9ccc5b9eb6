/** The server did not answer, or went away in the middle. */
export class Unreachable extends Error {
  constructor() {
    super('The server does not answer.');
  }
}

/** The server answered with an error; the message is its own. */
export class Refused extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

/** The sentence in an error body, in the shapes that OpenAI's and Anthropic's protocols share. */
export function errorMessage(body: unknown): string | null {
  const error = (body as { error?: { message?: unknown } | string } | null)?.error;
  if (typeof error === 'string') return error;
  return typeof error?.message === 'string' ? error.message : null;
}

export async function refusalOf(response: Response): Promise<Refused> {
  const body: unknown = await response.json().catch(() => null);
  const message =
    errorMessage(body) ?? `The server answered ${response.status} ${response.statusText}`.trim();
  return new Refused(message, response.status);
}
