import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Decoder, encode, plain, ProtocolError, ReplyError, toObject } from '../../src/resp/codec.js';
import { toBytes, toText } from '../../src/resp/text.js';

const decode = (text) => new Decoder().feed(toBytes(text));
const decodeOne = (text) => plain(decode(text)[0]);

test('requests are arrays of bulk strings, binary safe', () => {
  assert.equal(toText(encode(['SET', 'ü', 7])), '*3\r\n$3\r\nSET\r\n$2\r\nü\r\n$1\r\n7\r\n');
  const bytes = encode([Uint8Array.of(0, 255, 13, 10)]);
  assert.deepEqual([...bytes.subarray(8, 12)], [0, 255, 13, 10]);
});

test('each type of RESP3', () => {
  assert.equal(decodeOne('+OK\r\n'), 'OK');
  assert.equal(decodeOne(':-12\r\n'), -12);
  assert.equal(decodeOne(':9223372036854775807\r\n'), 9223372036854775807n);
  assert.equal(decodeOne('_\r\n'), null);
  assert.equal(decodeOne('$-1\r\n'), null);
  assert.equal(decodeOne('*-1\r\n'), null);
  assert.equal(decodeOne(',1.5\r\n'), 1.5);
  assert.equal(decodeOne(',-inf\r\n'), -Infinity);
  assert.ok(Number.isNaN(decodeOne(',nan\r\n')));
  assert.equal(decodeOne('#t\r\n'), true);
  assert.equal(decodeOne('(3492890328409238509324850943850943825024385\r\n'), 3492890328409238509324850943850943825024385n);
  assert.deepEqual(decodeOne('$3\r\n\r\nx\r\n'), toBytes('\r\nx'));
  assert.deepEqual(decodeOne('=8\r\ntxt:news\r\n'), toBytes('news'));
  assert.deepEqual(decodeOne('*2\r\n:1\r\n*0\r\n'), [1, []]);
  assert.deepEqual(decodeOne('~2\r\n:1\r\n:2\r\n'), [1, 2]);
  assert.deepEqual(decodeOne('%1\r\n+a\r\n:1\r\n'), [['a', 1]]);
  assert.equal(decode('>2\r\n+message\r\n+x\r\n')[0].type, '>');
});

test('errors carry their code', () => {
  const simple = decodeOne("-NOPERM User x has no permissions\r\n");
  assert.ok(simple instanceof ReplyError);
  assert.equal(simple.code, 'NOPERM');
  assert.equal(decodeOne('!9\r\nERR wrong\r\n').message, 'ERR wrong');
});

test('attributes are dropped, wherever they stand', () => {
  assert.equal(decodeOne('|1\r\n+key\r\n*1\r\n:5\r\n:7\r\n'), 7);
  assert.deepEqual(decodeOne('*2\r\n:1\r\n|1\r\n+ttl\r\n:3\r\n:2\r\n'), [1, 2]);
});

test('replies split at every byte', () => {
  const text = '*3\r\n$5\r\nhello\r\n%1\r\n+a\r\n*2\r\n:1\r\n#f\r\n,2.5\r\n+next\r\n$0\r\n\r\n';
  const whole = decode(text).map(plain);
  assert.equal(whole.length, 3);
  const bytes = toBytes(text);
  for (let first = 0; first <= bytes.length; first += 1) {
    for (let second = first; second <= bytes.length; second += 1) {
      const decoder = new Decoder();
      const parts = [bytes.slice(0, first), bytes.slice(first, second), bytes.slice(second)];
      assert.deepEqual(parts.flatMap((part) => decoder.feed(part)).map(plain), whole);
    }
  }
});

test('a long bulk string in many chunks', () => {
  const decoder = new Decoder();
  const length = 1 << 22;
  assert.deepEqual(decoder.feed(toBytes(`$${length}\r\n`)), []);
  const chunk = new Uint8Array(1 << 10).fill(120);
  for (let sent = 0; sent < length; sent += chunk.length) assert.deepEqual(decoder.feed(chunk), []);
  assert.equal(decoder.feed(toBytes('\r\n'))[0].value.length, length);
});

test('malformed replies are refused', () => {
  for (const text of ['?x\r\n', '$abc\r\n', '$1\r\nxyz\r\n', '*-2\r\n', '$99999999999999999999\r\n']) {
    assert.throws(() => decode(text), ProtocolError, text);
  }
  assert.throws(() => decode('*1\r\n'.repeat(2000)), ProtocolError);
});

test('pairs become objects', () => {
  assert.deepEqual(toObject([[toBytes('a'), 1], ['b', null]]), { a: 1, b: null });
  assert.deepEqual(toObject(undefined), {});
});
