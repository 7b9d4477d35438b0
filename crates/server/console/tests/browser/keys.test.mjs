// Keys: an edit of each type, creation, renaming, expiry, deletion, binary names, paging.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Browser, Server, settled, until, visit } from './harness.mjs';
import { toPath } from '../../src/resp/text.js';

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

async function openKey(name) {
  await visit(page, `keys/=${toPath(typeof name === 'string' ? new TextEncoder().encode(name) : name)}`, 'Keys');
  await page.locator('.detail-pane .facts').waitFor();
  await settled(page);
}

const dialog = () => page.getByRole('dialog');
const field = (label) => dialog().getByRole('textbox', { name: label, exact: true });
const press = (name) => dialog().getByRole('button', { name, exact: true }).click();
const closed = () => dialog().waitFor({ state: 'detached' });
const card = (name) => page.getByRole('region', { name });
const becomes = (expected, ...command) => until(async () => JSON.stringify(await client.text(...command)) === JSON.stringify(expected), `${command.join(' ')} is ${JSON.stringify(expected)}`);

test('string', async () => {
  await client.send('SET', 'text', 'before', 'EX', 5000);
  await openKey('text');
  await page.getByRole('textbox', { name: 'Value', exact: true }).fill('after\nwörds');
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await becomes('after\nwörds', 'GET', 'text');
  assert.ok(await client.send('TTL', 'text') > 0, 'the expiry stays');
});

test('a string that another client has changed is not overwritten', async () => {
  await client.send('SET', 'contended', 'one');
  await openKey('contended');
  await page.getByRole('textbox', { name: 'Value', exact: true }).waitFor();
  await client.send('SET', 'contended', 'two');
  await page.getByRole('textbox', { name: 'Value', exact: true }).fill('three');
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByText('The value has changed since it was shown').waitFor();
  assert.equal(await client.text('GET', 'contended'), 'two');
});

test('binary string under a binary name', async () => {
  const name = Uint8Array.of(0xff, 0x00, 0x22, 0x2f, 0x25);
  await client.send('SET', name, Uint8Array.of(1, 2, 0xfe));
  await openKey(name);
  const value = page.getByRole('textbox', { name: 'Value', exact: true });
  assert.equal(await value.inputValue(), '\\x01\\x02\\xfe');
  await value.fill('\\x00\\xffok');
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await until(async () => Buffer.from(await client.send('GET', name)).equals(Buffer.from([0, 0xff, 0x6f, 0x6b])), 'the bytes are written');
});

test('a long string is shown and changed in pieces', async () => {
  await client.send('SETRANGE', 'long', 99_999, 'z');
  await client.send('SETRANGE', 'long', 0, 'x'.repeat(99_999));
  await openKey('long');
  await page.getByRole('button', { name: 'Last page' }).click();
  await page.getByText('98,304 to 99,999 of 100,000').waitFor();
  const value = page.getByRole('textbox', { name: 'Value', exact: true });
  await until(async () => (await value.inputValue()).endsWith('z'), 'the last piece is shown');
  await value.fill(`${'y'.repeat(1695)}!`);
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await becomes('y!', 'GETRANGE', 'long', 99_998, -1);
  assert.equal(await client.send('STRLEN', 'long'), 100_000);
});

test('list', async () => {
  await client.send('RPUSH', 'list', 'a', 'b', 'c', 'b');
  await openKey('list');
  await page.getByRole('button', { name: 'Edit element 1' }).click();
  await field('Value').fill('B');
  await press('Save');
  await becomes(['a', 'B', 'c', 'b'], 'LRANGE', 'list', 0, -1);
  await closed();
  await page.getByRole('button', { name: 'Delete element 2' }).click();
  await press('Delete');
  await becomes(['a', 'B', 'b'], 'LRANGE', 'list', 0, -1);
  await card('Elements').getByRole('button', { name: 'Add' }).click();
  await field('Value').fill('first');
  await dialog().getByRole('combobox', { name: 'Where' }).selectOption('LPUSH');
  await press('Add');
  await becomes(['first', 'a', 'B', 'b'], 'LRANGE', 'list', 0, -1);
});

test('a long list is shown in pages', async () => {
  await client.send('RPUSH', 'pages', ...Array.from({ length: 5000 }, (_, index) => `element-${index}`));
  await openKey('pages');
  await card('Elements').getByText('element-99', { exact: true }).waitFor();
  assert.equal(await card('Elements').locator('tbody tr').count(), 100);
  await page.getByRole('button', { name: 'Next page' }).click();
  await card('Elements').getByText('element-199', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Last page' }).click();
  await card('Elements').getByText('element-4999', { exact: true }).waitFor();
});

test('hash', async () => {
  await client.send('HSET', 'hash', 'name', 'Ann', 'age', '33', 'gone', 'x');
  await openKey('hash');
  await page.getByRole('button', { name: 'Edit field name' }).click();
  await field('Value').fill('Bob');
  await press('Save');
  await becomes('Bob', 'HGET', 'hash', 'name');
  await closed();
  await page.getByRole('button', { name: 'Edit field age' }).click();
  await dialog().getByRole('textbox', { name: /Expires/ }).fill('5000');
  await press('Save');
  await until(async () => (await client.send('HTTL', 'hash', 'FIELDS', 1, 'age'))[0] > 0, 'the field expires');
  await closed();
  await page.getByRole('button', { name: 'Delete field gone' }).click();
  await press('Delete');
  await becomes(0, 'HEXISTS', 'hash', 'gone');
});

test('set', async () => {
  await client.send('SADD', 'set', 'a', 'b');
  await openKey('set');
  await page.getByRole('button', { name: 'Edit member a' }).click();
  await field('Member').fill('A');
  await press('Save');
  await until(async () => (await client.text('SMEMBERS', 'set')).sort().join() === 'A,b', 'the member is replaced');
});

test('sorted set', async () => {
  await client.send('ZADD', 'zset', 1, 'ann', 2, 'bob');
  await openKey('zset');
  await page.getByRole('button', { name: 'Edit member ann' }).click();
  await field('Score').fill('2.5');
  await press('Save');
  await becomes(2.5, 'ZSCORE', 'zset', 'ann');
  await closed();
  await card('Members').getByRole('searchbox').fill('b*');
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Edit member ann' }).waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Edit member bob' }).waitFor();
});

test('stream, its groups and pending entries', async () => {
  await client.send('XADD', 'stream', '1-1', 'a', '1');
  await client.send('XGROUP', 'CREATE', 'stream', 'workers', '0');
  await client.send('XREADGROUP', 'GROUP', 'workers', 'worker-1', 'STREAMS', 'stream', '>');
  await openKey('stream');
  await card('Entries').getByRole('button', { name: 'Add' }).click();
  await dialog().getByRole('textbox', { name: /Fields/ }).fill('city "New York"');
  await press('Add');
  await becomes(2, 'XLEN', 'stream');
  assert.deepEqual((await client.text('XREVRANGE', 'stream', '+', '-', 'COUNT', 1))[0][1], ['city', 'New York']);
  await closed();
  await page.getByRole('tab', { name: 'Groups' }).click();
  await page.getByRole('button', { name: 'workers', exact: true }).click();
  await page.getByRole('button', { name: 'Acknowledge 1-1' }).click();
  await press('Acknowledge');
  await becomes([0, null, null, null], 'XPENDING', 'stream', 'workers');
});

test('JSON as a tree', async () => {
  await client.send('JSON.SET', 'json', '$', '{"a\\"b": {"x y": 1}, "big": 12345678901234567890, "list": [1, 2]}');
  await openKey('json');
  await page.getByText('12345678901234567890').waitFor();
  await page.getByRole('button', { name: 'Open $["a\\"b"]' }).click();
  await page.getByRole('button', { name: 'Edit $["a\\"b"]["x y"]' }).click();
  await field('JSON').fill('"ü"');
  await press('Save');
  await becomes('["ü"]', 'JSON.GET', 'json', '$["a\\"b"]["x y"]');
  await closed();
  await page.getByRole('button', { name: 'Add to $["list"]' }).click();
  await field('JSON').fill('{"c": true}');
  await press('Add');
  await becomes('[[1,2,{"c":true}]]', 'JSON.GET', 'json', '$.list');
  await closed();
  await page.getByRole('button', { name: 'Edit $', exact: true }).click();
  assert.match(await field('JSON').inputValue(), /12345678901234567890/);
  await field('JSON').fill('{broken');
  await press('Save');
  await dialog().getByRole('alert').waitFor();
  await page.keyboard.press('Escape');
  await closed();
});

test('vector set with neighbours', async () => {
  await client.send('VADD', 'vectors', 'VALUES', 2, 1, 0, 'east');
  await client.send('VADD', 'vectors', 'VALUES', 2, 0.9, 0.1, 'east-north-east');
  await openKey('vectors');
  await page.getByRole('button', { name: 'Edit element east', exact: true }).click();
  await dialog().getByRole('textbox', { name: /Attributes/ }).fill('{"kind":1}');
  await press('Save');
  await becomes('{"kind":1}', 'VGETATTR', 'vectors', 'east');
  await closed();
  await page.getByRole('table', { name: 'Elements' }).getByRole('button', { name: 'east', exact: true }).click();
  await page.getByRole('table', { name: 'Neighbours' }).getByText('east-north-east').waitFor();
});

test('Bloom filter and count-min sketch', async () => {
  await client.send('BF.RESERVE', 'bloom', 0.01, 100);
  await openKey('bloom');
  await card('Bloom filter').getByRole('button', { name: 'Add' }).click();
  await field('Item').fill('x');
  await press('Add');
  await becomes(true, 'BF.EXISTS', 'bloom', 'x');
  await closed();
  await client.send('CMS.INITBYDIM', 'counts', 100, 5);
  await openKey('counts');
  await card('Count-min sketch').getByRole('button', { name: 'Add' }).click();
  await field('Item').fill('x');
  await field('Increment').fill('3');
  await press('Add');
  await becomes([3], 'CMS.QUERY', 'counts', 'x');
  await closed();
});

test('array', async () => {
  await client.send('ARMSET', 'array', '0', 'a', '7', 'b', '18446744073709551614', 'last');
  await openKey('array');
  await page.getByRole('button', { name: 'Edit element 7', exact: true }).click();
  await field('Value').fill('B');
  await press('Save');
  await becomes('B', 'ARGET', 'array', 7);
  await closed();
  await page.getByRole('button', { name: 'Delete element 18446744073709551614', exact: true }).click();
  await press('Delete');
  await becomes(2, 'ARCOUNT', 'array');
  await closed();
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await field('Index').fill('9007199254740993');
  await field('Value').fill('far');
  await press('Save');
  await becomes('far', 'ARGET', 'array', '9007199254740993');
  await closed();
  await page.getByRole('textbox', { name: 'First index' }).fill('8');
  await page.getByRole('button', { name: 'Show' }).click();
  const rows = card('Elements').locator('tbody tr');
  await until(async () => (await rows.allInnerTexts()).map((text) => text.trim().split(/\s/)[0]).join() === '9007199254740993', 'elements from 8 on are shown');
});

test('cuckoo filter, top-k and t-digest', async () => {
  const act = async (title, action, fields) => {
    await card(title).getByRole('button', { name: action, exact: true }).click();
    for (const [label, value] of Object.entries(fields)) await field(label).fill(value);
    await press(action);
  };
  await client.send('CF.RESERVE', 'cuckoo', 100);
  await openKey('cuckoo');
  await act('Cuckoo filter', 'Add', { Item: 'x' });
  await becomes(true, 'CF.EXISTS', 'cuckoo', 'x');
  await closed();
  await act('Cuckoo filter', 'Remove', { Item: 'x' });
  await becomes(false, 'CF.EXISTS', 'cuckoo', 'x');
  await closed();
  await client.send('TOPK.RESERVE', 'top', 3);
  await openKey('top');
  await act('Top-k', 'Add', { Item: 'x', Increment: '7' });
  await page.getByRole('table', { name: 'Most frequent items' }).getByText('x', { exact: true }).waitFor();
  await becomes(['x', 7], 'TOPK.LIST', 'top', 'WITHCOUNT');
  await closed();
  await client.send('TDIGEST.CREATE', 'digest');
  await openKey('digest');
  await act('t-digest', 'Add', { Value: '2.5' });
  await page.getByRole('table', { name: 'Quantiles' }).getByText('2.5').first().waitFor();
  await closed();
});

test('a key is created, renamed, given an expiry, and deleted', async () => {
  await visit(page, 'keys', 'Keys');
  await page.getByRole('button', { name: 'New key' }).click();
  await dialog().getByRole('combobox', { name: 'Type of the new key' }).selectOption('hash');
  await field('Name').fill('fresh');
  await dialog().getByRole('textbox', { name: 'Fields and values' }).fill('a 1 b "2 3"');
  await press('Create');
  await becomes('2 3', 'HGET', 'fresh', 'b');
  await closed();
  await page.getByRole('button', { name: 'Rename' }).click();
  await field('New name').fill('renamed');
  await press('Rename');
  await becomes(1, 'EXISTS', 'renamed');
  await closed();
  await page.getByRole('region', { name: 'Key renamed' }).waitFor();
  await page.getByRole('button', { name: 'Expiry' }).click();
  await dialog().getByRole('textbox').fill('5000');
  await press('Set');
  await until(async () => await client.send('TTL', 'renamed') > 0, 'the key expires');
  await closed();
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await press('Cancel');
  await closed();
  assert.equal(await client.send('EXISTS', 'renamed'), 1);
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await press('Delete');
  await becomes(0, 'EXISTS', 'renamed');
  await page.getByText('Select a key to see its value.').waitFor();
});

test('a deletion that ends late leaves the key that was opened meanwhile', async () => {
  await client.send('SET', '<late> %/', 'x');
  await client.send('SET', 'next', 'y');
  await openKey('<late> %/');
  await until(async () => await page.getByText('Deleted.').count() === 0, 'earlier messages are gone');
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await client.send('CLIENT', 'PAUSE', 100_000, 'WRITE');
  await press('Delete');
  await visit(page, 'keys/=next', 'Keys');
  await client.send('CLIENT', 'UNPAUSE');
  await becomes(0, 'EXISTS', '<late> %/');
  await page.getByText('Deleted.').waitFor();
  await page.getByRole('region', { name: 'Key next' }).waitFor();
});

test('markup in names and values is text', async () => {
  const markup = '<img src=x onerror="document.title=1">';
  await client.send('SADD', markup, markup);
  await openKey(markup);
  await page.getByRole('region', { name: 'Members' }).getByText(markup).waitFor();
  assert.equal(await page.locator('main img').count(), 0);
});

test('keys are found by pattern and type', async () => {
  await client.send('SET', 'needle:1', 'x');
  await visit(page, 'keys', 'Keys');
  await page.getByRole('searchbox', { name: 'Pattern' }).fill('needle:*');
  await page.keyboard.press('Enter');
  await page.getByRole('table', { name: 'Keys' }).getByText('needle:1').waitFor();
  await page.waitForFunction(() => document.querySelectorAll('[aria-label="Keys"] tbody tr').length === 1);
  await page.getByRole('combobox', { name: 'Type' }).selectOption('hash');
  await page.getByText('No key found.').waitFor();
});

test('a value longer than a message of the WebSocket is written', async () => {
  await visit(page, 'keys', 'Keys');
  await page.getByRole('button', { name: 'New key' }).click();
  await field('Name').fill('longer');
  await dialog().getByRole('textbox', { name: 'Value' }).fill('v'.repeat(300_000));
  await press('Create');
  await becomes(300_000, 'STRLEN', 'longer');
  await closed();
});
