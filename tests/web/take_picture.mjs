// Takes the README's picture of the page: `node take_picture.mjs [FILE]` here, after a release build. Starts the server with
// the bundled model, asks it for a story, and writes FILE (docs/pictures/page.png), below 300 kB.
import { mkdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ChatPage, launchBrowser } from './chat_page.mjs';
import { startServer } from './server_process.mjs';

const kRepository = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const kMaxBytes = 300_000;
/** The same story for the same build of the model. */
const kSettings = { temperature: 0.7, seed: 7, maxTokens: 400 };
const kEarlier = ['A poem about the sea', 'What do whales eat?', 'Tell me about a lighthouse'];
const kStory = 'Tell me a story about a fox who finds a lantern.';
const kDayMs = 86_400_000;

function earlierConversation(title, index) {
  const at = Date.now() - (index + 1) * kDayMs;
  const turns = [{ id: '1', parent: null, at, message: { role: 'user', text: title } }];
  return [
    `baleen.conversation.e${index}`,
    { id: `e${index}`, title, changed: at, system: null, turns, leaf: '1' },
  ];
}

async function takePicture(file) {
  const server = await startServer();
  let browser;
  try {
    browser = await launchBrowser();
    const chat = await ChatPage.open(browser, server.url, {
      viewport: { width: 1200, height: 760 },
      colorScheme: 'light',
      storage: { 'baleen.settings': kSettings, ...Object.fromEntries(kEarlier.map(earlierConversation)) },
    });
    await chat.button('New conversation').first().click();
    await chat.ask(kStory);
    await chat.page.mouse.move(700, 20);
    await chat.page.screenshot({ path: file });
    await chat.close();
  } finally {
    await browser?.close();
    await server.kill();
  }
  const { size } = statSync(file);
  if (size > kMaxBytes) throw new Error(`${file} has ${size} bytes; the README has place for ${kMaxBytes}`);
  console.log(`${file}: ${size} bytes`);
}

const file = process.argv[2] ?? join(kRepository, 'docs', 'pictures', 'page.png');
mkdirSync(dirname(file), { recursive: true });
await takePicture(file);
