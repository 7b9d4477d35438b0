// A server on free ports, a RESP connection to it, and a browser that records errors of its pages.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { Decoder, encode, plain, ReplyError } from '../../src/resp/codec.js';
import { display } from '../../src/resp/text.js';

/** Upper bound of every wait; generous, since other work may keep the processors busy. */
export const PATIENCE = 120_000;
const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];

/** Waits until `condition()` resolves to a value that is true. */
export async function until(condition, what) {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const value = await condition();
    if (value) return value;
    assert.ok(Date.now() < end, `gave up waiting: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

/** A RESP3 connection for tests. */
export class Client {
  static async open(port) {
    const client = new Client();
    client.socket = connect(port, '127.0.0.1');
    client.decoder = new Decoder();
    client.waiting = [];
    await new Promise((resolve, reject) => client.socket.once('connect', resolve).once('error', reject));
    client.socket.on('error', () => {});
    client.socket.on('data', (data) => {
      for (const node of client.decoder.feed(data)) client.waiting.shift()?.(plain(node));
    });
    await client.send('HELLO', 3);
    return client;
  }

  /** Sends a command; resolves to its reply, errors included. */
  reply(...args) {
    return new Promise((resolve) => {
      this.waiting.push(resolve);
      this.socket.write(encode(args));
    });
  }

  async send(...args) {
    const reply = await this.reply(...args);
    if (reply instanceof ReplyError) throw reply;
    return reply;
  }

  /** Reply with bulk strings as text. */
  async text(...args) {
    const convert = (value) => (Array.isArray(value) ? value.map(convert) : value instanceof Uint8Array ? display(value) : value);
    return convert(await this.send(...args));
  }

  close() {
    this.socket.destroy();
  }
}

async function freePorts(count) {
  const servers = await Promise.all(Array.from({ length: count }, () => new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => resolve(server));
  })));
  const ports = servers.map((server) => server.address().port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

/** The server under test. */
export class Server {
  static async start(...options) {
    const server = new Server();
    server.directory = await mkdtemp(join(tmpdir(), 'petrel-console-test-'));
    server.options = options;
    [server.port, server.httpPort] = await freePorts(2);
    await server.run();
    return server;
  }

  get url() { return `http://127.0.0.1:${this.httpPort}/console/`; }

  /** Starts the process, on the same ports if it has run before. */
  async run() {
    const args = ['--port', this.port, '--bind', '127.0.0.1', '--http-port', this.httpPort, '--http-bind', '127.0.0.1', '--dir', this.directory,
      '--enable-debug-command', 'yes', ...this.options];
    this.process = spawn(process.env.PETREL_BINARY, args.map(String), { cwd: this.directory, stdio: ['ignore', 'pipe', 'pipe'] });
    this.output = '';
    for (const stream of [this.process.stdout, this.process.stderr]) stream.on('data', (data) => { this.output += data; });
    this.exit = new Promise((resolve) => this.process.once('exit', resolve));
    await until(async () => {
      assert.equal(this.process.exitCode, null, `the server has ended:\n${this.output}`);
      return fetch(this.url).then((response) => response.ok && this.answers(), () => false);
    }, 'the server answers');
  }

  async answers() {
    return Client.open(this.port).then((client) => { client.close(); return true; }, (error) => error instanceof ReplyError);
  }

  client() { return Client.open(this.port); }

  async stop() {
    this.process.kill('SIGTERM');
    await this.exit;
  }

  async end() {
    if (this.process.exitCode === null) await this.stop();
    await rm(this.directory, { recursive: true, force: true });
  }
}

/** A browser; `page()` opens the console in a fresh profile. */
export class Browser {
  static async start() {
    const browser = new Browser();
    browser.chromium = await chromium.launch({ executablePath: process.env.CHROMIUM, args: FLAGS, timeout: PATIENCE });
    return browser;
  }

  /** Opens an address. Errors of its console are collected in `page.problems`. */
  async page(url, options = {}) {
    const context = await this.chromium.newContext({ viewport: { width: 1440, height: 900 }, ...options });
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE);
    page.problems = [];
    page.on('pageerror', (error) => page.problems.push(String(error)));
    page.on('console', (message) => { if (['error', 'warning'].includes(message.type())) page.problems.push(message.text()); });
    page.on('request', (request) => { if (!request.url().startsWith(new URL(url).origin)) page.problems.push(`foreign request: ${request.url()}`); });
    await page.goto(url);
    return page;
  }

  end() { return this.chromium.close(); }
}

/** Opens a page of the console by its name and waits for its heading. */
export async function visit(page, path, heading) {
  await page.evaluate((hash) => { location.hash = hash; }, `#/${path}`);
  await page.locator('main h1', { hasText: heading }).waitFor();
}

/** Waits until nothing on the page is loading any more. */
export async function settled(page) {
  await page.waitForFunction(() => document.querySelector('main') && !document.querySelector('main p[aria-busy="true"]'));
}

export const PAGES = [
  ['overview', 'Overview'], ['keys', 'Keys'], ['terminal', 'Command line'], ['latency', 'Latency'], ['slowlog', 'Slow log'], ['hotkeys', 'Hot keys'], ['bigkeys', 'Big keys'],
  ['clients', 'Clients'], ['pubsub', 'Pub/sub'], ['topology', 'Replicas and cluster'], ['acl', 'Users'], ['configuration', 'Configuration'],
];
