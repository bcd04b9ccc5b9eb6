// One server and one browser for the tests of a file, and pages in them that must stay quiet.
//
// No test waits for a time: it waits for what a user would see, however slow the machine is. The bounds here
// only end what hangs.
import { after, before, test } from 'node:test';
import { ChatPage, launchBrowser } from './chat_page.mjs';
import { holdStreams } from './held_stream.mjs';
import { startServer } from './server_process.mjs';

export const kTestMs = 600_000;
const kFileMs = 1_500_000;
const kSettleMs = 150_000;
const kLookMs = 50;

/**
 * Until `check` throws nothing any more: a page shows what was typed or stored a moment later. At last, its
 * error.
 */
export async function settled(check) {
  const end = Date.now() + kSettleMs;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (Date.now() > end) throw error;
      await new Promise((wake) => setTimeout(wake, kLookMs));
    }
  }
}

/** Until `read` gives what `holds`. Returns it. */
export function until(read, holds, what) {
  return settled(async () => {
    const value = await read();
    if (!holds(value)) throw new Error(`${what}; last seen: ${JSON.stringify(value)}`);
    return value;
  });
}

/** `serverOptions` are of the command line. Returns what the tests of the file share. */
export function pageUnderTest(serverOptions = []) {
  const shared = { server: undefined, browser: undefined, held: undefined, pageTest, heldTest, open };

  async function endAll() {
    await shared.browser?.close();
    await shared.held?.close();
    await shared.server?.kill();
  }
  function open(options) {
    return ChatPage.open(shared.browser, shared.server.url, options);
  }
  /** A test with a page of its own; lines of the console that match `expected` are no errors. */
  function pageTest(name, { expected, ...options }, body) {
    test(name, { timeout: kTestMs }, async () => {
      const chat = await open(options);
      await body(chat);
      await chat.close(expected);
    });
  }
  /** The same with a page whose replies come as `held` lets them (`held_stream.mjs`). */
  function heldTest(name, options, body) {
    test(name, { timeout: kTestMs }, async () => {
      shared.held ??= await holdStreams(() => shared.server.url);
      const chat = await ChatPage.open(shared.browser, shared.held.url, options);
      await body(chat, shared.held);
      await chat.close();
    });
  }

  setTimeout(() => void endAll().finally(() => process.exit(1)), kFileMs).unref();
  before(
    async () => {
      shared.server = await startServer(0, serverOptions);
      shared.browser = await launchBrowser();
    },
    { timeout: kTestMs },
  );
  after(endAll);
  return shared;
}
