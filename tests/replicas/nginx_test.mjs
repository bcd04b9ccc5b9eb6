// packaging/replicas/nginx.conf with the ports of the test, included where an operator's own file would
// include it.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { testProxy } from './replicas.mjs';

/** The recipe's ports, in its order: three of replicas, and its own. */
const kPorts = ['8081', '8082', '8083', '8080'];

function configure(text, ports, port) {
  return [...ports, port].reduce((changed, to, i) => {
    const from = i < ports.length ? `server 127.0.0.1:${kPorts[i]} ` : `listen ${kPorts[i]};`;
    assert.ok(changed.includes(from), `nginx.conf has no "${from}"`);
    return changed.replace(from, i < ports.length ? `server 127.0.0.1:${to} ` : `listen 127.0.0.1:${to};`);
  }, text);
}

function start(file, folder) {
  const main = join(folder, 'main.conf');
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((name) => `  ${name}_temp_path ${join(folder, name)};`)
    .join('\n');
  writeFileSync(
    main,
    `daemon off;\npid ${join(folder, 'nginx.pid')};\nerror_log stderr;\nevents {}\n` +
      `http {\n  access_log off;\n${temporary}\n  include ${file};\n}\n`,
  );
  return ['-e', 'stderr', '-p', folder, '-c', main];
}

testProxy({ recipe: 'nginx.conf', configure, start, environment: () => ({}) });
