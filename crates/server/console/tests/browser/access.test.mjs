// Login, users without rights, a server that goes and returns, one that is slow.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Browser, PAGES, Server, settled, until, visit } from './harness.mjs';

let browser;

before(async () => { browser = await Browser.start(); });
after(() => browser.end());

async function withServer(options, body) {
  const server = await Server.start(...options);
  try {
    await body(server);
  } finally {
    await server.end();
  }
}

async function login(page, user, password) {
  await page.getByRole('textbox', { name: 'User' }).fill(user);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Log in' }).click();
}

test('a wrong password is rejected, the right one accepted', () => withServer(['--requirepass', 'secret words'], async (server) => {
  const page = await browser.page(server.url);
  await login(page, '', 'wrong');
  await page.getByText('Wrong user name or password').waitFor();
  await login(page, '', 'secret words');
  await page.locator('main h1', { hasText: 'Overview' }).waitFor();
  assert.equal(await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }).includes('secret')), false);
  await page.getByTitle('Log in as another user').click();
  await page.getByRole('button', { name: 'Log in' }).waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
}));

test('a user without rights sees what is refused', () => withServer(['--requirepass', 'admin', '--user', 'guest', 'on', '>guest', '~public:*', '+get', '+scan', '+type'], async (server) => {
  const page = await browser.page(server.url);
  await login(page, 'guest', 'guest');
  await page.locator('main h1').waitFor();
  for (const [name, heading] of PAGES) {
    await visit(page, name, heading);
    await settled(page);
  }
  for (const name of ['overview', 'slowlog', 'clients', 'acl', 'configuration', 'topology', 'hotkeys']) {
    await visit(page, name, PAGES.find(([other]) => other === name)[1]);
    await page.getByRole('alert').filter({ hasText: 'Not permitted for this user' }).first().waitFor();
    await page.getByText(/NOPERM/).first().waitFor();
  }
  assert.deepEqual(page.problems, []);
  await page.context().close();
}));

test('the console follows a server that stops and returns', () => withServer(['--requirepass', 'secret'], async (server) => {
  const page = await browser.page(server.url);
  await login(page, 'default', 'secret');
  await visit(page, 'keys', 'Keys');
  await settled(page);
  await server.stop();
  await page.getByText('No connection to the server').waitFor();
  assert.equal(await page.locator('main h1').innerText(), 'Keys');
  await server.run();
  await page.getByText('No connection to the server').waitFor({ state: 'detached' });
  const client = await server.client().catch(() => null);
  client?.close();
  await visit(page, 'configuration', 'Configuration');
  await page.getByRole('table', { name: 'Parameters' }).getByText('maxmemory', { exact: true }).waitFor();
  await page.context().close();
}));

test('a slow server is named, and nothing freezes', () => withServer([], async (server) => {
  const client = await server.client();
  const page = await browser.page(server.url);
  await page.locator('main h1').waitFor();
  await client.send('CLIENT', 'PAUSE', 6000, 'ALL');
  await page.getByText(/waiting for [A-Z]+, \d+ s/).waitFor();
  await visit(page, 'acl', 'Users');
  await visit(page, 'pubsub', 'Pub/sub');
  await visit(page, 'keys', 'Keys');
  await page.getByText(/waiting for [A-Z]+, \d+ s/).waitFor({ state: 'detached' });
  await settled(page);
  assert.deepEqual(page.problems, []);
  client.close();
  await page.context().close();
}));

/** Keys of the large data set; ten million where the machine and the build allow it. */
const MANY = Number(process.env.CONSOLE_KEYS ?? 200_000);

test(`${MANY} keys: no page loads all of them`, () => withServer([], async (server) => {
  const client = await server.client();
  await client.send('DEBUG', 'POPULATE', MANY, 'many', 10);
  await client.send('SET', 'needle', 'x');
  const page = await browser.page(server.url);
  const before = await client.text('INFO', 'commandstats');
  assert.ok(!before.includes('cmdstat_keys'));
  await visit(page, 'keys', 'Keys');
  await settled(page);
  await page.getByText(`of ${(MANY + 1).toLocaleString('en')} shown`).waitFor();
  assert.ok(await page.getByRole('table', { name: 'Keys' }).locator('tbody tr').count() <= 1000);
  await page.getByRole('searchbox', { name: 'Pattern' }).fill('needle');
  await page.keyboard.press('Enter');
  await until(async () => {
    if (await page.getByRole('link', { name: 'needle' }).count() > 0) return true;
    // The button goes while a page loads, and for good at the end of the scan.
    await page.getByRole('button', { name: 'More' }).click({ timeout: 500 }).catch(() => {});
    return false;
  }, 'the key is found, in bounded steps');
  await visit(page, 'bigkeys', 'Big keys');
  await page.getByRole('button', { name: 'Start' }).click();
  await page.getByRole('table', { name: 'Largest keys' }).locator('tbody tr').first().waitFor();
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByRole('button', { name: 'Start' }).waitFor();
  assert.deepEqual(page.problems, []);
  client.close();
  await page.context().close();
}));
