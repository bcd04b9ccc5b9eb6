// The page as a user has it: what can be pressed and read, by the names that a screen reader says.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chromium } from 'playwright-core';

const kFlags = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];
/** Ends what hangs; a slow machine never takes so long. */
const kPatienceMs = 150_000;

export function launchBrowser() {
  const executablePath = execFileSync('which', ['chromium'], { encoding: 'utf8' }).trim();
  return chromium.launch({ executablePath, args: kFlags, timeout: kPatienceMs });
}

export class ChatPage {
  /** Chats that were requested: the bodies, in order. */
  requests = [];
  errors = [];
  foreign = [];

  /** A page in a browser profile of its own; `mayAsk` are origins beside its server's. */
  static async open(browser, url, { path = '/', storage = {}, mayAsk = [], ...options } = {}) {
    const context = await browser.newContext({ viewport: { width: 1200, height: 800 }, ...options });
    context.setDefaultTimeout(kPatienceMs);
    await context.addInitScript((items) => {
      if (localStorage.length > 0) return;
      for (const [key, value] of Object.entries(items)) localStorage.setItem(key, JSON.stringify(value));
    }, storage);
    const self = new ChatPage();
    self.context = context;
    self.page = await context.newPage();
    self.page.on('console', (message) => message.type() === 'error' && self.errors.push(message.text()));
    self.page.on('pageerror', (error) => self.errors.push(error.message));
    self.page.on('request', (request) => {
      const { protocol, origin } = new URL(request.url());
      const isOwn = [url, ...mayAsk].includes(origin) || protocol === 'data:' || protocol === 'blob:';
      if (!isOwn) self.foreign.push(request.url());
      if (request.url().endsWith('/v1/chat/completions')) self.requests.push(request.postDataJSON());
    });
    await self.page.goto(`${url}${path}`);
    return self;
  }

  /** Another tab of the same browser. */
  async openTab() {
    const other = new ChatPage();
    other.context = this.context;
    other.page = await this.context.newPage();
    other.page.on('console', (message) => message.type() === 'error' && this.errors.push(message.text()));
    other.page.on('pageerror', (error) => this.errors.push(error.message));
    await other.page.goto(this.page.url());
    return other;
  }

  /**
   * Closes the page; it must have been quiet, but for lines that match `expected` (browsers note every status
   * above 400), and have spoken to its own server only.
   */
  async close(expected = /^$/) {
    await this.context.close();
    assert.deepEqual(this.foreign, [], 'requests to other origins');
    const errors = this.errors.filter((line) => !expected.test(line));
    assert.deepEqual(errors, [], 'errors on the console');
  }

  button(name) {
    return this.page.getByRole('button', { name, exact: true });
  }
  get entry() {
    return this.page.getByRole('textbox', { name: 'Message', exact: true });
  }
  get replies() {
    return this.page.getByRole('article', { name: 'Reply' });
  }
  /** What the last reply says, without its thinking. */
  get answer() {
    return this.replies.last().locator(':scope > .markdown');
  }

  /** Opens a menu and takes an item of it. */
  async choose(menu, item) {
    await this.page.getByRole('button', { name: menu, exact: true }).click();
    await this.page.getByRole('menuitem', { name: item, exact: true }).click();
  }

  /** What a menu of the list does with the conversation `title`. */
  async chooseOf(title, item) {
    await this.page.locator('.entry').filter({ hasText: title }).first().hover();
    await this.choose(`More of ${title}`, item);
  }

  /** The conversations in the list, by title. */
  get titles() {
    return this.page.locator('.entry-title').allInnerTexts();
  }

  async say(text) {
    await this.entry.fill(text);
    await this.entry.press('Enter');
  }

  /** Waits for the figures under the last reply: it is over then. */
  async replied() {
    await this.replies
      .last()
      .getByRole('list', { name: 'Figures of this reply' })
      .waitFor({ state: 'attached' });
  }

  async ask(text) {
    await this.say(text);
    await this.replied();
  }

  /** Runs `change` with the panel of settings open. */
  async withSettings(change) {
    await this.button('Settings').click();
    await change(this.page.getByRole('complementary', { name: 'Settings' }));
    await this.button('Settings').click();
  }

  async setLongestReply(tokens) {
    await this.withSettings(async (panel) => {
      await panel.getByLabel('Longest reply').fill(String(tokens));
      await panel.getByLabel('Longest reply').press('Tab');
    });
  }

  /** The background that is in force, as the browser computes it. */
  background() {
    return this.page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  }
}
