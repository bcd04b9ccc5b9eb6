// The real server as a child process: $BALEEN, or the release build, with the bundled model.
import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const kRepository = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const kBaleen = process.env.BALEEN ?? join('build', 'release', 'src', 'app', 'baleen');
/** Ends what hangs; a slow machine never takes so long. */
const kStartMs = 300_000;

/** Resolves when the server listens; `port` 0 takes any. `options` are further ones of the command line. */
export async function startServer(port = 0, options = []) {
  const child = spawn(kBaleen, ['serve', '--port', String(port), '--model', join('models', 'stories'), ...options], {
    cwd: kRepository,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let errors = '';
  child.stderr.on('data', (text) => (errors = `${errors}${text}`.slice(-4000)));
  const kill = () =>
    new Promise((resolve) => {
      if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return resolve();
      child.once('exit', resolve);
      child.kill('SIGKILL');
    });
  /** Ends it as an operator does, and resolves to its status. */
  const end = () =>
    new Promise((resolve) => {
      child.once('exit', resolve);
      child.kill('SIGTERM');
    });

  const url = await new Promise((resolve, reject) => {
    const giveUp = (why) => {
      void kill();
      reject(new Error(`${kBaleen} serve ${why}\n${errors}`));
    };
    const timer = setTimeout(() => giveUp(`did not listen within ${kStartMs / 1000} s`), kStartMs);
    child.once('error', (error) => giveUp(`does not start: ${error.message}`));
    child.once('exit', (status) => giveUp(`ended with status ${status}`));
    createInterface({ input: child.stdout }).on('line', (line) => {
      const found = /listening on (http:\/\/[^\s]+)/.exec(line);
      if (!found) return;
      clearTimeout(timer);
      resolve(found[1].replace(/\/$/, ''));
    });
  });
  return { url, port: Number(new URL(url).port), kill, end };
}
