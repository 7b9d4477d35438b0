// Command line, pub/sub, clients, configuration, users, slow log, hot keys, replicas.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Browser, Server, until, visit } from './harness.mjs';

let server;
let browser;
let client;
let page;

before(async () => {
  [server, browser] = await Promise.all([Server.start(), Browser.start()]);
  client = await server.client();
  page = await browser.page(server.url);
  await page.locator('main h1').waitFor();
});
after(async () => {
  assert.deepEqual(page?.problems, []);
  client.close();
  await Promise.all([server.end(), browser.end()]);
});

const dialog = () => page.getByRole('dialog');
const press = (name) => dialog().getByRole('button', { name, exact: true }).click();
const prompt = () => page.getByRole('textbox', { name: 'Command', exact: true });
const transcript = () => page.getByRole('log', { name: 'Replies' });

async function run(line) {
  await prompt().fill(line);
  await page.keyboard.press('Enter');
}

test('the command line shows replies as redis-cli does', async () => {
  await visit(page, 'terminal', 'Command line');
  await run('ZADD board 1.5 "ann lee"');
  await transcript().getByText('(integer) 1').waitFor();
  await run('ZRANGE board 0 -1 WITHSCORES');
  await transcript().getByText('1) 1) "ann lee"').waitFor();
  await transcript().getByText('(double) 1.5').waitFor();
  await run('GET board');
  await transcript().getByText('(error) WRONGTYPE').waitFor();
  await run('HGETALL "open');
  await transcript().getByText('quotes are unbalanced').waitFor();
});

test('the command line completes, hints and recalls', async () => {
  await visit(page, 'terminal', 'Command line');
  await page.locator('.completions').waitFor({ state: 'attached' });
  await prompt().fill('config ge');
  await page.getByRole('button', { name: 'CONFIG GET' }).waitFor();
  await page.keyboard.press('Tab');
  assert.equal(await prompt().inputValue(), 'CONFIG GET ');
  await page.locator('.ghost', { hasText: 'parameter' }).waitFor({ state: 'attached' });
  await page.keyboard.press('ArrowUp');
  assert.equal(await prompt().inputValue(), 'HGETALL "open');
  await prompt().fill('');
});

test('a command that waits does not hold up the console, and is stopped', async () => {
  await visit(page, 'terminal', 'Command line');
  await run('BLPOP nothing-here 0');
  await page.getByText('waiting for BLPOP').waitFor();
  await until(async () => (await client.text('CLIENT', 'LIST')).includes('cmd=blpop'), 'the client is blocked');
  await visit(page, 'slowlog', 'Slow log');
  await page.getByRole('table', { name: 'Slow commands' }).waitFor();
  await visit(page, 'terminal', 'Command line');
  await page.getByRole('button', { name: 'Stop' }).click();
  await transcript().getByText('connection closed').waitFor();
  await run('PING');
  await transcript().getByText('PONG').waitFor();
});

test('the command line shows pushes', async () => {
  await run('SUBSCRIBE chat');
  await until(async () => (await client.text('PUBSUB', 'CHANNELS')).includes('chat'), 'the channel has a subscriber');
  await client.send('PUBLISH', 'chat', 'hello there');
  await transcript().getByText('"hello there"').waitFor();
  await page.getByRole('button', { name: 'Stop' }).click();
});

test('messages and keyspace events arrive live', async () => {
  await visit(page, 'pubsub', 'Pub/sub');
  await page.getByRole('textbox', { name: 'Channel or pattern' }).fill('news.*');
  await page.getByRole('button', { name: 'Subscribe', exact: true }).click();
  await until(async () => await client.send('PUBSUB', 'NUMPAT') > 0, 'the pattern has a subscriber');
  await client.send('PUBLISH', 'news.sports', 'goal');
  await page.getByRole('table', { name: 'Messages' }).getByText('goal').waitFor();
  await page.getByRole('button', { name: 'Turn them on' }).click();
  await press('Turn on');
  await until(async () => (await client.text('CONFIG', 'GET', 'notify-keyspace-events'))[0][1] !== '', 'events are on');
  await page.getByRole('button', { name: 'Keyspace events' }).click();
  await until(async () => await client.send('PUBSUB', 'NUMPAT') > 1, 'events have a subscriber');
  await client.send('SET', 'watched', '1');
  await page.getByRole('table', { name: 'Messages' }).getByText('__keyspace@0__:watched').waitFor();
  await page.getByRole('textbox', { name: 'Channel', exact: true }).fill('news.weather');
  await page.getByRole('textbox', { name: 'Message', exact: true }).fill('sunny');
  await page.getByRole('button', { name: 'Publish' }).click();
  await page.getByRole('table', { name: 'Messages' }).getByText('sunny').waitFor();
});

test('a client is closed', async () => {
  const victim = await server.client();
  const id = await victim.send('CLIENT', 'ID');
  await visit(page, 'clients', 'Clients');
  await page.getByRole('button', { name: `Close client ${id}`, exact: true }).click();
  await press('Close it');
  await until(() => victim.socket.destroyed || victim.socket.readableEnded, 'the connection is closed');
  victim.close();
});

test('a parameter is set', async () => {
  await visit(page, 'configuration', 'Configuration');
  await page.getByRole('searchbox', { name: 'Filter' }).fill('slowlog-log');
  await page.locator('.help', { hasText: 'microseconds' }).first().waitFor();
  await page.getByRole('button', { name: 'Change slowlog-log-slower-than' }).click();
  await dialog().getByRole('textbox', { name: 'Value' }).fill('rubbish');
  await press('Set');
  await dialog().getByRole('alert').waitFor();
  await dialog().getByRole('textbox', { name: 'Value' }).fill('0');
  await press('Set');
  await until(async () => (await client.text('CONFIG', 'GET', 'slowlog-log-slower-than'))[0][1] === '0', 'the parameter is set');
  await dialog().waitFor({ state: 'detached' });
});

test('slow commands are listed', async () => {
  await client.send('SET', 'slow thing', 'value');
  await visit(page, 'slowlog', 'Slow log');
  await page.getByRole('table', { name: 'Slow commands' }).getByText('SET slow thing value').first().waitFor();
  await client.send('CONFIG', 'SET', 'slowlog-log-slower-than', 10_000);
});

test('a user is created, changed and deleted', async () => {
  await visit(page, 'acl', 'Users');
  await page.getByRole('button', { name: 'New user' }).click();
  await dialog().getByRole('textbox', { name: 'Name', exact: true }).fill('reader');
  await dialog().getByLabel('New password').fill('pw');
  await dialog().getByRole('textbox', { name: /Rules/ }).fill('~public:* +@read (~other +get)');
  await press('Save');
  await until(async () => (await client.text('ACL', 'LIST')).some((line) => line.startsWith('user reader on') && line.includes('+@read')), 'the user exists');
  await dialog().waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Edit user reader' }).click();
  await dialog().getByRole('combobox', { name: 'State' }).selectOption('off');
  await press('Save');
  await until(async () => (await client.text('ACL', 'LIST')).some((line) => line.startsWith('user reader off') && line.includes('(~other')), 'the user is off');
  await dialog().waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Delete user reader' }).click();
  await press('Delete');
  await until(async () => !(await client.text('ACL', 'USERS')).includes('reader'), 'the user is deleted');
});

test('hot keys are collected', async () => {
  await visit(page, 'hotkeys', 'Hot keys');
  await page.getByRole('spinbutton', { name: 'One command of' }).fill('1');
  await page.getByRole('button', { name: 'Start' }).click();
  await page.getByRole('button', { name: 'Stop' }).waitFor();
  await client.send('SET', 'hot', '1');
  await page.getByRole('table', { name: 'By CPU time' }).getByText('hot', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByRole('button', { name: 'Start' }).waitFor();
});

test('a replica is on the map', async () => {
  const replica = await Server.start('--replicaof', `127.0.0.1 ${server.port}`);
  await visit(page, 'topology', 'Replicas and cluster');
  await page.locator('.map').getByText(`127.0.0.1:${replica.port}`).waitFor();
  await page.locator('.map').getByText(/online/).waitFor();
  await replica.end();
});
