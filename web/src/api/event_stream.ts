/**
 * The data of server-sent events, taken from text that arrives in pieces cut anywhere. Event names, ids and comments
 * are passed over: the chat protocol uses none.
 */
export class EventStream {
  private rest = '';
  private data: string[] = [];

  /** The events that became complete with this piece. */
  push(piece: string): string[] {
    const events: string[] = [];
    // A CR at the very end may be half of a CRLF: it waits for the next piece.
    const text = this.rest + piece;
    const usable = text.endsWith('\r') ? text.slice(0, -1) : text;
    const lines = usable.split(/\r\n|\n|\r/);
    this.rest = (lines.pop() ?? '') + text.slice(usable.length);
    for (const line of lines) {
      if (line === '') {
        if (this.data.length > 0) events.push(this.data.join('\n'));
        this.data = [];
      } else if (line.startsWith('data:')) {
        this.data.push(line.slice(line.startsWith('data: ') ? 6 : 5));
      }
    }
    return events;
  }
}
