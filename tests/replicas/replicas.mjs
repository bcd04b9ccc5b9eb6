// Three servers with the bundled model behind a proxy, and what a client notices of it: nothing.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { startServer } from '../web/server_process.mjs';

const kRecipes = join(dirname(fileURLToPath(import.meta.url)), '..', '..', 'packaging', 'replicas');
const kOptions = ['--context', '4096', '--max-sequences', '4', '--threads', '1'];
const kNumReplicas = 3;
const kNumConversations = 9;
/** Several pages of the prefix cache, each of 256 tokens. */
const kHistory = 'The fox walked to the river and the bear followed. '.repeat(60);

/** A port of the loopback that was free a moment ago. */
function freePort() {
  return new Promise((resolve, reject) => {
    const socket = createServer();
    socket.once('error', reject);
    socket.listen(0, '127.0.0.1', () => {
      const { port } = socket.address();
      socket.close(() => resolve(port));
    });
  });
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function until(holds, what, seconds = 30) {
  for (let i = 0; i < seconds * 20; ++i) {
    if (await holds()) return;
    await pause(50);
  }
  assert.fail(`not within ${seconds} s: ${what}`);
}

/**
 * What is special of a proxy: its `recipe`; `configure(text, ports, port)`, which makes that fit the servers'
 * ports and the proxy's; `start(file, folder)`, the arguments of the program; `environment(ports, port)`,
 * what the recipe reads from there.
 */
async function startReplicas({ recipe, configure, start, environment }) {
  const servers = await Promise.all(Array.from({ length: kNumReplicas }, () => startServer(0, kOptions)));
  const ports = servers.map((server) => server.port);
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), 'replicas-'));
  const file = join(folder, recipe);
  writeFileSync(file, configure(readFileSync(join(kRecipes, recipe), 'utf8'), ports, port));
  let errors = '';
  // In a process group of its own: a proxy has workers, which outlive a master that is killed alone.
  const proxy = spawn(process.env.PROXY, start(file, folder), {
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...environment(ports, port) },
  });
  for (const stream of [proxy.stdout, proxy.stderr]) {
    stream.on('data', (text) => (errors = `${errors}${text}`.slice(-4000)));
  }
  const url = `http://127.0.0.1:${port}`;
  const stop = async () => {
    if (proxy.exitCode === null && proxy.signalCode === null) {
      const ended = new Promise((resolve) => proxy.once('exit', resolve));
      process.kill(-proxy.pid, 'SIGKILL');
      await ended;
    }
    await Promise.all(servers.map((server) => server.kill()));
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    await until(async () => {
      assert.equal(proxy.exitCode, null, `the proxy ended: ${errors}`);
      return fetch(`${url}/ready`).then((reply) => reply.ok, () => false);
    }, `the proxy forwards: ${errors}`);
  } catch (error) {
    await stop();
    throw error;
  }
  return { url, servers, stop };
}

/** A request of conversation `i`, whose messages so far are `messages`. */
async function chat(url, i, messages, options = {}) {
  const reply = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-conversation-id': `conversation ${i}` },
    body: JSON.stringify({ messages, max_tokens: 8, temperature: 0, ...options }),
  });
  return { status: reply.status, text: await reply.text() };
}

/** As some clients write it, and as others do. */
const firstMessage = (i) => {
  const text = `Story ${i}. ${kHistory}`;
  return { role: 'user', content: i % 2 === 0 ? text : [{ type: 'text', text }] };
};

/**
 * Follow-up requests find the prefix of their conversation in the cache of the replica they reach. One
 * request at a time: of many, some may go elsewhere to share the load.
 */
async function checkPrefixHits({ url }) {
  const conversations = Array.from({ length: kNumConversations }, (_, i) => [firstMessage(i)]);
  for (let request = 0; request < 3; ++request) {
    for (const [i, messages] of conversations.entries()) {
      const reply = await chat(url, i, messages);
      assert.equal(reply.status, 200, reply.text);
      const { choices, usage } = JSON.parse(reply.text);
      const { cached_tokens: cached } = usage.prompt_tokens_details;
      const what = `request ${request} of conversation ${i}: ${cached} cached tokens`;
      if (request > 0) assert.ok(cached >= 256, what);
      messages.push(choices[0].message, { role: 'user', content: 'And then?' });
    }
  }
}

/** The conversations are not all on one replica. */
async function checkSpread({ servers }) {
  const treeOf = async ({ url }) => (await (await fetch(`${url}/stats`)).json()).tree;
  const trees = await Promise.all(servers.map(treeOf));
  assert.ok(trees.filter((nodes) => nodes.length > 0).length >= 2, JSON.stringify(trees));
}

/** A replica that is killed loses no request of which no byte was answered. */
async function checkKill({ url, servers }) {
  const replies = Array.from({ length: 24 }, (_, i) => chat(url, i, [firstMessage(i)], { max_tokens: 40 }));
  await pause(300);
  await servers[0].kill();
  for (const { status, text } of await Promise.all(replies)) assert.equal(status, 200, text);
}

/** A replica that is sent SIGTERM ends the streams it has begun; other requests go to the others. */
async function checkDrain({ url, servers }) {
  const request = (i, options) => chat(url, i, [{ role: 'user', content: `Tell me story ${i}.` }], options);
  const streams = Array.from({ length: 12 }, (_, i) => request(i, { max_tokens: 60, stream: true }));
  await pause(200);
  const ended = servers[1].end();
  const later = [];
  for (let i = 12; i < 36; ++i) {
    later.push(request(i));
    await pause(20);
  }
  for (const { status, text } of await Promise.all(streams)) {
    assert.equal(status, 200, text);
    assert.match(text, /data: \[DONE\]\s*$/);
  }
  for (const { status, text } of await Promise.all(later)) assert.equal(status, 200, text);
  assert.equal(await ended, 0);
}

export function testProxy(proxy) {
  const skip = process.env.PROXY ? false : `${proxy.recipe.split('.')[0]} is not installed`;
  const scenario = (name, check) =>
    test(name, { skip }, async () => {
      const replicas = await startReplicas(proxy);
      try {
        await check(replicas);
      } finally {
        await replicas.stop();
      }
    });
  scenario('a conversation stays with the replica that has its prefix', async (replicas) => {
    await checkPrefixHits(replicas);
    await checkSpread(replicas);
  });
  scenario('a killed replica loses no request that it has not answered', checkKill);
  scenario('a replica that ends in order loses nothing', checkDrain);
}
