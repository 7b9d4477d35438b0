// A client connection of the server through a WebSocket that carries RESP in both directions.
import { concat, Decoder, encode, plain, ReplyError } from '../resp/codec.js';
import { toText } from '../resp/text.js';

/** Loss of the connection while a reply was awaited: whether the command was executed is unknown. */
export class ConnectionLost extends Error {
  constructor(reason) {
    super(reason || 'The connection was closed');
    this.name = 'ConnectionLost';
  }
}

/** Bytes of a message; the server refuses those above 64 KiB. A command may be spread over several. */
const MESSAGE_BYTES = 32 * 1024;

const SUBSCRIBING = new Set(['subscribe', 'psubscribe', 'ssubscribe', 'unsubscribe', 'punsubscribe', 'sunsubscribe']);

export function socketUrl() {
  const url = new URL('ws', document.baseURI);
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
  url.hash = '';
  return url.href;
}

export class Connection {
  #socket;
  #decoder = new Decoder();
  #queue = [];
  #outgoing = [];
  #onPush;
  #onClose;

  /** `onPush(node)` gets pushes and lines of MONITOR; `onClose({ code, reason })` is called once. */
  constructor({ onPush = () => {}, onClose = () => {} } = {}) {
    this.#onPush = onPush;
    this.#onClose = onClose;
  }

  open() {
    return new Promise((resolve, reject) => {
      const socket = new WebSocket(socketUrl(), 'petrel.resp');
      this.#socket = socket;
      socket.binaryType = 'arraybuffer';
      socket.onopen = () => resolve(this);
      socket.onmessage = (event) => this.#receive(event.data);
      socket.onclose = ({ code, reason }) => {
        const error = new ConnectionLost(reason);
        error.closeCode = code;
        reject(error);
        this.#fail(error);
        this.#onClose({ code, reason });
      };
    });
  }

  close() {
    this.#socket?.close(1000);
  }

  get isOpen() {
    return this.#socket?.readyState === WebSocket.OPEN;
  }

  /** The oldest command without a reply: its name and the time when it was sent. */
  get waiting() {
    return this.#queue[0] ?? null;
  }

  /** Sends a command; resolves to its reply as a node. Error replies are nodes too. */
  request(args) {
    if (!this.isOpen) return Promise.reject(new ConnectionLost());
    return new Promise((resolve, reject) => {
      this.#queue.push({ name: String(args[0] instanceof Uint8Array ? toText(args[0]) : args[0]).toLowerCase(), since: performance.now(), resolve, reject });
      this.#write(encode(args));
    });
  }

  // Commands of one turn of the event loop go out together.
  #write(bytes) {
    if (this.#outgoing.push(bytes) > 1) return;
    queueMicrotask(() => {
      const message = concat(this.#outgoing);
      this.#outgoing = [];
      for (let at = 0; at < message.length && this.isOpen; at += MESSAGE_BYTES) {
        this.#socket.send(message.subarray(at, at + MESSAGE_BYTES));
      }
    });
  }

  /** Sends a command; resolves to its reply as plain values, rejects with `ReplyError`. */
  async send(...args) {
    const reply = plain(await this.request(args));
    if (reply instanceof ReplyError) throw reply;
    return reply;
  }

  /** Sends commands back to back; resolves to their replies. Error replies are `ReplyError` values. */
  async pipeline(commands) {
    const nodes = await Promise.all(commands.map((args) => this.request(args)));
    return nodes.map(plain);
  }

  /** Executes commands as a transaction; resolves to their replies, or to null if a watched key was changed. */
  async transaction(commands) {
    const replies = await this.pipeline([['MULTI'], ...commands, ['EXEC']]);
    const failed = replies.find((reply) => reply instanceof ReplyError);
    if (failed) throw failed;
    const results = replies.at(-1);
    const error = results?.find((reply) => reply instanceof ReplyError);
    if (error) throw error;
    return results;
  }

  #receive(data) {
    try {
      for (const node of this.#decoder.feed(new Uint8Array(data))) this.#deliver(node);
    } catch (error) {
      this.#fail(error);
      this.#socket.close(1000);
    }
  }

  #deliver(node) {
    const first = this.#queue[0];
    if (node.type !== '>' && first) {
      this.#queue.shift().resolve(node);
      return;
    }
    // A subscribing command has pushes instead of a reply; the first of them completes it.
    if (node.type === '>' && first && SUBSCRIBING.has(first.name) && toText(node.value[0]?.value) === first.name) {
      this.#queue.shift().resolve(node);
    }
    this.#onPush(node);
  }

  #fail(error) {
    const queue = this.#queue;
    this.#queue = [];
    for (const { reject } of queue) reject(error);
  }
}
