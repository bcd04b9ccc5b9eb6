// One server and one browser for the tests of a file, and pages in them that must stay quiet.
import { after, before, test } from 'node:test';
import { ChatPage, launchBrowser } from './chat_page.mjs';
import { startServer } from './server_process.mjs';

export const kTestMs = 60_000;

/**
 * Until `check` throws nothing any more: a page shows what was typed or stored a moment later. After ten
 * seconds, its error.
 */
export async function settled(check) {
  const end = Date.now() + 10_000;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (Date.now() > end) throw error;
      await new Promise((wake) => setTimeout(wake, 50));
    }
  }
}

/** `wholeMs`: when the file is given up, whatever hangs. Returns what the tests share. */
export function pageUnderTest(wholeMs) {
  const shared = { server: undefined, browser: undefined, pageTest, open };

  async function endAll() {
    await shared.browser?.close();
    await shared.server?.kill();
  }
  function open(options) {
    return ChatPage.open(shared.browser, shared.server.url, options);
  }
  /** A test with a page of its own. */
  function pageTest(name, options, body) {
    test(name, { timeout: kTestMs }, async () => {
      const chat = await open(options);
      await body(chat);
      await chat.close();
    });
  }

  setTimeout(() => void endAll().finally(() => process.exit(1)), wholeMs).unref();
  before(
    async () => {
      shared.server = await startServer();
      shared.browser = await launchBrowser();
    },
    { timeout: kTestMs },
  );
  after(endAll);
  return shared;
}
