// How long a conversation of 400 messages takes to open: `node measure_opening.mjs` here, after a release build. From the
// click in the list to the second frame after it, five times; the first one also compiles.
import { ChatPage, launchBrowser } from './chat_page.mjs';
import { startServer } from './server_process.mjs';

const kMessages = 400;
const kRounds = 5;
const kReply = [
  'Here is **bold** and `code` with \\(a_i^2\\).',
  '```cpp\nint main() { return 0; }  // code in colours\n```',
  '- one\n- two',
  '| a | b |\n|---|---|\n| 1 | 2 |',
  'Some more prose that makes the reply long enough to be a paragraph. '.repeat(8),
].join('\n\n');

const reply = { role: 'assistant', text: kReply, ending: 'stop' };

function conversation(title, count) {
  const messages = Array.from({ length: count }, (_, index) =>
    index % 2 === 0 ? { role: 'user', text: `Question ${index}` } : reply,
  );
  return { id: title, title, changed: 1e12, messages };
}

const server = await startServer();
const browser = await launchBrowser();
try {
  const storage = { 'baleen.conversations': [conversation('Long', kMessages), conversation('Short', 2)] };
  const { page, context } = await ChatPage.open(browser, server.url, { storage });
  const titled = (title) => page.getByRole('button', { name: title, exact: true });
  for (let round = 0; round < kRounds; round += 1) {
    await titled('Short').click();
    await page.getByText('Question 398').waitFor({ state: 'detached' });
    const ms = await titled('Long').evaluate(async (button) => {
      const begin = performance.now();
      button.click();
      const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
      await frame();
      await frame();
      return performance.now() - begin;
    });
    const rendered = await page.locator('.markdown').count();
    console.log(`${kMessages} messages: ${ms.toFixed(0)} ms, ${rendered} replies rendered`);
  }
  await context.close();
} finally {
  await browser.close();
  await server.kill();
}
