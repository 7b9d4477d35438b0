// Every page opens without errors, in both themes, on narrow and wide screens.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Browser, PAGES, Server, settled, visit } from './harness.mjs';

let server;
let browser;

before(async () => {
  [server, browser] = await Promise.all([Server.start(), Browser.start()]);
  const client = await server.client();
  for (let number = 0; number < 300; number += 1) client.send('SET', `user:${number}`, 'x'.repeat(number));
  await client.send('HSET', 'a hash with a rather long name: '.repeat(4), 'field', 'v'.repeat(2000));
  await client.send('JSON.SET', 'document', '$', JSON.stringify({ list: [1, 'two', { three: 'w'.repeat(500) }] }));
  await client.send('XADD', 'stream', '*', 'field', 'l'.repeat(1000));
  client.close();
});
after(() => Promise.all([server.end(), browser.end()]));

async function openAll(options) {
  const page = await browser.page(server.url, options);
  await page.locator('main h1').waitFor();
  for (const [name, heading] of PAGES) {
    await visit(page, name, heading);
    await settled(page);
    const excess = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(excess <= 0, `${name} is ${excess} pixels too wide`);
    assert.equal(await page.locator('main .problem').count(), 0, `${name}: ${await page.locator('main .problem').allInnerTexts()}`);
  }
  for (const key of ['user:7', 'document', 'stream', `${'a hash with a rather long name: '.repeat(4)}`]) {
    await visit(page, `keys/=${encodeURIComponent(key)}`, 'Keys');
    await page.locator('.detail-pane .facts').waitFor();
    await settled(page);
    const excess = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(excess <= 0, `key ${key} is ${excess} pixels too wide`);
  }
  assert.deepEqual(page.problems, []);
  await page.context().close();
}

test('1440 pixels, light', () => openAll({ colorScheme: 'light' }));
test('390 pixels, dark', () => openAll({ colorScheme: 'dark', viewport: { width: 390, height: 844 } }));
test('3840 pixels', () => openAll({ viewport: { width: 3840, height: 2160 } }));

test('security headers, and no other origin', async () => {
  const response = await fetch(server.url);
  assert.match(response.headers.get('content-security-policy'), /default-src 'none'/);
  const redirect = await fetch(server.url.slice(0, -1), { redirect: 'manual' });
  assert.ok(redirect.status >= 300 && redirect.status < 400);
});

test('the theme is switched and kept', async () => {
  const page = await browser.page(server.url, { colorScheme: 'light' });
  const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const light = await ground();
  await page.getByRole('button', { name: 'Theme: system' }).click();
  await page.getByRole('button', { name: 'Theme: light' }).click();
  await page.getByRole('button', { name: 'Theme: dark' }).waitFor();
  const dark = await ground();
  assert.notEqual(dark, light);
  await page.reload();
  await page.getByRole('button', { name: 'Theme: dark' }).waitFor();
  assert.equal(await ground(), dark);
  await page.context().close();
});

test('the keyboard opens pages, search and help', async () => {
  const page = await browser.page(server.url);
  await page.locator('main h1', { hasText: 'Overview' }).waitFor();
  await page.keyboard.press('g');
  await page.keyboard.press('k');
  await page.locator('main h1', { hasText: 'Keys' }).waitFor();
  await page.keyboard.press('/');
  await page.waitForFunction(() => document.activeElement?.getAttribute('aria-label') === 'Pattern');
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => document.activeElement === document.body);
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keyboard' }).waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test('overview shows load after two samples', async () => {
  const page = await browser.page(server.url);
  await page.locator('main h1', { hasText: 'Overview' }).waitFor();
  await page.waitForFunction(() => /\d/.test([...document.querySelectorAll('.stat')].find((stat) => stat.textContent.startsWith('Operations/s'))?.querySelector('dd').textContent ?? ''));
  await page.getByRole('table', { name: 'Workers' }).getByText(/^\d+ %$/).first().waitFor();
  await page.getByRole('button', { name: 'Take a sample' }).click();
  await page.getByRole('table', { name: 'Memory by prefix' }).getByText('user:').waitFor();
  await page.getByRole('table', { name: 'Memory by type' }).getByText('JSON').waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});
