// Login and reconnection. The password is kept in memory only, for reconnection and further connections.
import { Connection, ConnectionLost } from './connection.js';
import { ReplyError, toObject } from '../resp/codec.js';
import { toText } from '../resp/text.js';

const FIRST_DELAY = 500;
const MAX_DELAY = 10_000;
const REFUSED = 1008;

/** `connecting`, `login`, `ready`, `lost` (reconnects) or `refused` (the server does not want this client). */
class Session extends EventTarget {
  status = 'connecting';
  error = '';
  user = '';
  server = {};
  database = 0;
  /** Number of successful logins; a dependency of everything that is loaded. */
  generation = 0;
  retryAt = 0;
  #credentials = null;
  #connection = null;
  #delay = FIRST_DELAY;
  #timer = 0;

  get connection() { return this.#connection; }

  #set(change) {
    Object.assign(this, change);
    this.dispatchEvent(new Event('change'));
  }

  start() {
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden && this.status === 'lost') this.retry();
    });
    return this.#connect();
  }

  async login(user, password) {
    this.#credentials = { user: user || 'default', password };
    this.#set({ error: '', status: 'connecting' });
    if (this.#connection?.isOpen) await this.#handshake();
    else await this.#connect();
  }

  /** Closes the connection and asks for another user. */
  logout() {
    this.#credentials = null;
    const old = this.#connection;
    this.#connection = null;
    old?.close();
    this.#set({ status: 'login', user: '', error: '', database: 0 });
  }

  retry() {
    clearTimeout(this.#timer);
    return this.#connect();
  }

  /** Opens a further connection as the same user, for pub/sub and the command line. */
  async openConnection(handlers) {
    const connection = new Connection(handlers);
    await connection.open();
    const { user, password } = this.#credentials ?? {};
    const auth = this.#credentials ? ['AUTH', user, password] : [];
    await connection.send('HELLO', 3, ...auth, 'SETNAME', 'petrel-console');
    return connection;
  }

  async select(database) {
    await this.#connection.send('SELECT', database);
    this.#set({ database, generation: this.generation + 1 });
  }

  async #connect() {
    clearTimeout(this.#timer);
    const connection = new Connection({ onClose: (event) => this.#closed(connection, event) });
    this.#connection = connection;
    try {
      await connection.open();
    } catch {
      return;
    }
    await this.#handshake();
  }

  async #handshake() {
    const connection = this.#connection;
    const { user, password } = this.#credentials ?? {};
    const auth = this.#credentials ? ['AUTH', user, password] : [];
    try {
      const server = toObject(await connection.send('HELLO', 3, ...auth, 'SETNAME', 'petrel-console'));
      if (this.database > 0) await connection.send('SELECT', this.database);
      this.#delay = FIRST_DELAY;
      const name = await connection.send('ACL', 'WHOAMI').then(toText, () => user ?? 'default');
      this.#set({ status: 'ready', server, user: name, error: '', generation: this.generation + 1 });
    } catch (error) {
      if (!(error instanceof ReplyError)) return;
      const asks = error.code === 'NOAUTH' && !this.#credentials;
      this.#credentials = null;
      this.#set({ status: 'login', error: asks ? '' : error.message });
    }
  }

  #closed(connection, { code, reason }) {
    if (connection !== this.#connection || this.status === 'login') return;
    if (code === REFUSED) {
      this.#set({ status: 'refused', error: reason || 'The server refuses connections of the console.' });
      return;
    }
    this.#set({ status: 'lost', error: reason, retryAt: Date.now() + this.#delay });
    if (document.hidden) return;
    this.#timer = setTimeout(() => this.#connect(), this.#delay);
    this.#delay = Math.min(2 * this.#delay, MAX_DELAY);
  }
}

export const session = new Session();

/** Sends a command on the session's connection. */
export const send = (...args) => (session.connection ? session.connection.send(...args) : Promise.reject(new ConnectionLost()));
export const pipeline = (commands) => (session.connection ? session.connection.pipeline(commands) : Promise.reject(new ConnectionLost()));
export const transaction = (commands) => session.connection.transaction(commands);
