// Tools that the page runs at MCP servers, in Chromium: each call is asked about, and nothing that was cut is
// run.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ChatPage } from './chat_page.mjs';
import { startMcpServer } from './mcp_server.mjs';
import { kTestMs, pageUnderTest, until } from './page_under_test.mjs';
import { startServer } from './server_process.mjs';

const shared = pageUnderTest();

/** A test with an MCP server of its own, which the page has been given. */
function toolTest(name, serverOptions, body) {
  test(name, { timeout: kTestMs }, async () => {
    const tools = await startMcpServer(serverOptions);
    try {
      const chat = await shared.open({ mayAsk: [new URL(tools.url).origin] });
      await chat.withSettings(async (panel) => {
        await panel.getByLabel('Address of a tool server').fill(tools.url);
        await chat.button('Add server').click();
        await panel.getByText('1 tool: roll.dice').waitFor();
      });
      await body(chat, tools);
      await chat.context.close();
      assert.deepEqual(chat.foreign, [], 'requests to other origins');
    } finally {
      await tools.close();
    }
  });
}

/** The bundled model calls tools when it must: its choice is set in the request, as it leaves the page. */
async function forceCalls(chat, { rounds = 1, change = (body) => body } = {}) {
  let left = rounds;
  await chat.page.route('**/v1/chat/completions', (route) => {
    const body = route.request().postDataJSON();
    left -= 1;
    const choice = left >= 0 ? 'required' : 'none';
    const sent = { ...body, tool_choice: choice, parallel_tool_calls: false, max_tokens: 200 };
    return route.continue({ postData: JSON.stringify(change(sent, left)) });
  });
}

const question = (chat) => chat.page.getByRole('group', { name: 'May roll_dice run?' });

toolTest('a call is asked about, runs when it is allowed, and the model goes on', {}, async (chat, tools) => {
  await forceCalls(chat);
  await chat.say('Roll the dice.');
  await question(chat).getByText(tools.url).waitFor();
  assert.equal(tools.calls.length, 0, 'nothing ran before the answer');
  const isSeen = () =>
    chat.button('Deny').evaluate((one) => {
      const seen = one.closest('.scroller').getBoundingClientRect();
      return one.getBoundingClientRect().bottom <= seen.bottom;
    });
  await until(isSeen, Boolean, 'the view follows to the question');
  await chat.button('Allow once').click();
  await until(
    () => chat.replies.count(),
    (count) => count === 2,
    'the model goes on',
  );
  await chat.replied();
  assert.equal(tools.calls.length, 1);
  assert.equal(tools.calls[0].name, 'roll.dice', 'by the name that the server gave');
  assert.ok(['six', 'twenty'].includes(tools.calls[0].arguments.sides));
  const [first, second] = chat.requests;
  assert.deepEqual(
    first.tools.map((tool) => tool.function.name),
    ['roll_dice'],
  );
  assert.equal(second.messages.at(-1).content, 'You rolled 4.');
  assert.equal(
    tools.heads.find(({ method }) => method === 'tools/call')['mcp-protocol-version'],
    '2025-06-18',
  );
});

toolTest(
  'a tool is allowed for one conversation, not for another, nor after a reload',
  {},
  async (chat, tools) => {
    await forceCalls(chat, { rounds: 2 });
    await chat.say('Roll the dice.');
    await question(chat).waitFor();
    await chat.button('Always in this conversation').click();
    await until(
      () => chat.replies.count(),
      (count) => count === 3,
      'the second call runs by itself',
    );
    await chat.replied();
    assert.equal(tools.calls.length, 2);

    await chat.page.unrouteAll();
    await forceCalls(chat);
    await chat.button('New conversation').first().click();
    await chat.say('Roll again.');
    await question(chat).waitFor();
    await chat.page.reload();
    await question(chat).waitFor();
    assert.equal(tools.calls.length, 2, 'nothing ran without an answer');
  },
);

toolTest('a call that is denied is not run, and the model hears so', {}, async (chat, tools) => {
  await forceCalls(chat);
  await chat.say('Roll the dice.');
  await question(chat).waitFor();
  await chat.button('Deny').click();
  await until(
    () => chat.replies.count(),
    (count) => count === 2,
    'the model goes on',
  );
  await chat.replied();
  assert.equal(tools.calls.length, 0);
  assert.equal(chat.requests[1].messages.at(-1).content, 'The user did not allow this call.');
});

toolTest('a call that was cut is not offered to be run', {}, async (chat, tools) => {
  await forceCalls(chat, { change: (body) => ({ ...body, max_tokens: 12 }) });
  await chat.say('Roll the dice.');
  await chat.replied();
  assert.equal(await question(chat).count(), 0);
  assert.equal(tools.calls.length, 0);
});

toolTest(
  'Escape stops a tool that runs; the server hears it and the user goes on',
  { wait: true },
  async (chat, tools) => {
    await forceCalls(chat);
    await chat.say('Roll the dice.');
    await question(chat).waitFor();
    await chat.button('Allow once').click();
    await chat.page.getByText('The tool runs. Stop ends it.').waitFor();
    await until(
      () => tools.waiting.length,
      (count) => count === 1,
      'the call has arrived',
    );
    await chat.page.keyboard.press('Escape');
    await chat.page.getByText('Ready to go on.').waitFor();
    await until(
      () => tools.cancelled.length,
      (count) => count === 1,
      'the server hears that it is cancelled',
    );
    assert.equal(await chat.replies.count(), 1, 'the model does not go on by itself');
  },
);

toolTest(
  'a call whose page went away is not run a second time unasked',
  { wait: true },
  async (chat, tools) => {
    await forceCalls(chat);
    await chat.say('Roll the dice.');
    await question(chat).waitFor();
    await chat.button('Always in this conversation').click();
    await until(
      () => tools.waiting.length,
      (count) => count === 1,
      'the call has arrived',
    );
    await chat.page.reload();
    await question(chat)
      .getByText(/was begun, and what came of it is not known/)
      .waitFor();
    assert.equal(tools.calls.length, 1);
  },
);

toolTest('a session that the server forgot is begun anew', {}, async (chat, tools) => {
  await forceCalls(chat);
  tools.forget();
  await chat.say('Roll the dice.');
  await question(chat).waitFor();
  await chat.button('Allow once').click();
  await until(
    () => chat.replies.count(),
    (count) => count === 2,
    'the model goes on',
  );
  assert.equal(tools.sessions, 2);
  assert.equal(tools.calls.length, 1);
});

toolTest(
  'what a tool says is text',
  { result: '<img src=x onerror=window.ran=1><script>window.ran=1</script>' },
  async (chat) => {
    await forceCalls(chat);
    await chat.say('Roll the dice.');
    await question(chat).waitFor();
    await chat.button('Allow once').click();
    await until(
      () => chat.replies.count(),
      (count) => count === 2,
      'the model goes on',
    );
    await chat.page.getByText('<img src=x onerror=window.ran=1>').waitFor();
    assert.equal(await chat.page.locator('.scroller :is(img, script)').count(), 0);
    assert.equal(await chat.page.evaluate(() => window.ran), undefined);
  },
);

test(
  'a server where the operator allows none is not asked, and the page says why',
  { timeout: kTestMs },
  async () => {
    const tools = await startMcpServer();
    const closed = await startServer(0, ['--mcp-origin', 'none']);
    try {
      const chat = await ChatPage.open(shared.browser, closed.url);
      await chat.withSettings(async (panel) => {
        await panel.getByLabel('Address of a tool server').fill(tools.url);
        await chat.button('Add server').click();
        await panel
          .getByText(`This page may not speak to ${new URL(tools.url).origin}.`, { exact: false })
          .waitFor();
      });
      assert.equal(tools.heads.length, 0);
      await chat.context.close();
    } finally {
      await closed.kill();
      await tools.close();
    }
  },
);

test('a server that is not there is named with what is wrong', { timeout: kTestMs }, async () => {
  const chat = await shared.open();
  await chat.withSettings(async (panel) => {
    await panel.getByLabel('Address of a tool server').fill('ftp://localhost/');
    await chat.button('Add server').click();
    await panel.getByText(/Expected an address/).waitFor();
    await panel.getByLabel('Address of a tool server').fill('http://127.0.0.1:9/mcp');
    await chat.button('Add server').click();
    await panel.getByText(/does not answer, or does not let this page ask/).waitFor();
    assert.equal(await panel.getByRole('list', { name: 'Tool servers' }).getByRole('listitem').count(), 1);
  });
  await chat.context.close(); // The refused connection stands on its console.
});
