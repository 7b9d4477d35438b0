import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Decoder } from '../../src/resp/codec.js';
import { formatReply } from '../../src/resp/format.js';
import { display, escapeBytes, fromHex, fromPath, printable, splitCommand, toBytes, toHex, toPath, toText, unescapeBytes } from '../../src/resp/text.js';

const allBytes = Uint8Array.from({ length: 256 }, (_, byte) => byte);

test('escapes are reversed for all bytes', () => {
  assert.deepEqual(unescapeBytes(escapeBytes(allBytes)), allBytes);
  assert.deepEqual(fromHex(toHex(allBytes)), allBytes);
  assert.deepEqual(fromPath(toPath(allBytes)), allBytes);
  assert.deepEqual(unescapeBytes('ü😀'), toBytes('ü😀'));
});

test('malformed escapes are refused', () => {
  assert.throws(() => unescapeBytes('x\\'), SyntaxError);
  assert.throws(() => fromHex('abc'), SyntaxError);
  assert.equal(fromPath('%4'), null);
});

test('only printable UTF-8 is shown as text', () => {
  assert.equal(display(toBytes('Zürich')), 'Zürich');
  assert.equal(display(Uint8Array.of(0x61, 0xff)), 'a\\xff');
  assert.equal(printable(toBytes('a\u0000')), null);
  assert.equal(printable(toBytes('a\u202eb')), null);
  assert.equal(printable(toBytes('\ufeffa')), null);
  assert.equal(printable(toBytes('a\nb\tc')), 'a\nb\tc');
  assert.equal(printable(toBytes('a\rb')), null);
  assert.equal(display(null), '(nil)');
});

test('command lines are split as by redis-cli', () => {
  const words = (line) => splitCommand(line)?.map(toText);
  assert.deepEqual(words('set  a "b \\"c\\" \\x41" \'d e\''), ['set', 'a', 'b "c" A', 'd e']);
  assert.deepEqual(words("'it\\'s'"), ["it's"]);
  assert.deepEqual(words('""'), ['']);
  assert.deepEqual(words('   '), []);
  assert.equal(words('"open'), undefined);
  assert.equal(words('"a"b'), undefined);
});

test('replies are formatted as by redis-cli', () => {
  const format = (text) => formatReply(new Decoder().feed(toBytes(text))[0]);
  assert.equal(format('+OK\r\n'), 'OK');
  assert.equal(format(':3\r\n'), '(integer) 3');
  assert.equal(format(',1.5\r\n'), '(double) 1.5');
  assert.equal(format('_\r\n'), '(nil)');
  assert.equal(format('-ERR no\r\n'), '(error) ERR no');
  assert.equal(format('$3\r\na"b\r\n'), '"a\\"b"');
  assert.equal(format('*0\r\n'), '(empty array)');
  assert.equal(format('*2\r\n:1\r\n*2\r\n#t\r\n#f\r\n'), '1) (integer) 1\n2) 1) (true)\n   2) (false)');
  assert.equal(format('%1\r\n$1\r\na\r\n:1\r\n'), '1# "a" => (integer) 1');
});
