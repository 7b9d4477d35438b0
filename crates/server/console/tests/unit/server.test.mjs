import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseUser, ruleWords } from '../../src/server/acl.js';
import { parseNodes, slotCount } from '../../src/server/cluster.js';
import { commandOf, completions, hint, parseDocs } from '../../src/server/commands.js';
import { difference, parseHistograms, percentile } from '../../src/server/histogram.js';
import { parseInfo, parsePairs } from '../../src/server/info.js';
import { toBytes } from '../../src/resp/text.js';

test('INFO is parsed by section', () => {
  const info = parseInfo('# Server\r\nredis_version:8.8.0\r\nexecutable:/a:b\r\n\r\n# Keyspace\r\ndb0:keys=5,expires=0\r\n');
  assert.deepEqual(info.server, { redis_version: '8.8.0', executable: '/a:b' });
  assert.deepEqual(parsePairs(info.keyspace.db0), { keys: 5, expires: 0 });
});

const histograms = (commands) => parseHistograms(Object.entries(commands).map(([name, buckets]) => [toBytes(name), [['calls', 1], ['histogram_usec', Object.entries(buckets)]]]));

test('differences of histograms are calls since the last sample', () => {
  const before = histograms({ get: { 1: 10, 2: 15 }, info: { 1: 1 } });
  const after = histograms({ get: { 1: 12, 2: 20, 8: 21 }, set: { 4: 3 }, info: { 1: 9 } });
  assert.deepEqual([...difference(before, after)].sort(), [[0, 2], [1, 3], [2, 3], [3, 1]]);
  assert.equal(difference(after, after).size, 0);
});

test('after a reset all calls are new', () => {
  const after = histograms({ get: { 4: 2 } });
  assert.deepEqual([...difference(histograms({ get: { 2: 100 } }), after)], [[2, 2]]);
});

test('percentiles lie within their bucket', () => {
  const buckets = new Map([[2, 98], [10, 2]]);
  assert.ok(percentile(buckets, 0.5) > 2 && percentile(buckets, 0.5) <= 4);
  assert.ok(percentile(buckets, 0.99) > 512 && percentile(buckets, 0.99) <= 1024);
  assert.equal(percentile(new Map(), 0.5), null);
});

const docs = parseDocs([
  ['set', [['summary', 'Sets.'], ['since', '1.0.0'], ['arguments', [
    [['name', 'key'], ['type', 'key'], ['display_text', 'key']],
    [['name', 'value'], ['type', 'string'], ['display_text', 'value']],
    [['name', 'condition'], ['type', 'oneof'], ['flags', ['optional']], ['arguments', [
      [['name', 'nx'], ['type', 'pure-token'], ['token', 'NX']], [['name', 'xx'], ['type', 'pure-token'], ['token', 'XX']]]]],
    [['name', 'seconds'], ['type', 'integer'], ['token', 'EX'], ['flags', ['optional']]],
  ]]]],
  ['del', [['arguments', [[['name', 'key'], ['type', 'key'], ['flags', ['multiple']]]]]]],
  ['config', [['subcommands', [['config|get', [['summary', 'Reads.']]], ['config|set', []]]]]],
]);

test('hints follow the command table', () => {
  assert.equal(hint(docs, 'set '), 'key value [<NX | XX>] [EX seconds]');
  assert.equal(hint(docs, 'SET a b '), '[<NX | XX>] [EX seconds]');
  assert.equal(hint(docs, 'del '), 'key [key ...]');
  assert.equal(hint(docs, 'nothing '), '');
  assert.equal(commandOf(docs, ['config', 'get']).summary, 'Reads.');
});

test('completions are commands, then subcommands', () => {
  assert.deepEqual(completions(docs, 'c'), ['CONFIG']);
  assert.deepEqual(completions(docs, 'config '), ['CONFIG GET', 'CONFIG SET']);
  assert.deepEqual(completions(docs, 'config g'), ['CONFIG GET']);
  assert.deepEqual(completions(docs, ''), []);
});

test('users of ACL LIST', () => {
  const user = parseUser('user joe on sanitize-payload #2d71 ~a resetchannels -@all +get (~b resetchannels -@all +set)');
  assert.deepEqual(user, { name: 'joe', isOn: true, withoutPassword: false, passwords: 1, rules: '~a resetchannels -@all +get (~b resetchannels -@all +set)' });
  assert.deepEqual(ruleWords(' ~a +get  (~b +set) '), ['~a', '+get', '(~b +set)']);
});

test('members of CLUSTER NODES', () => {
  const [member, replica] = parseNodes('07c3 127.0.0.1:30001@31001,host1 myself,master - 0 0 1 connected 0-99 200 [5-<-aa]\n9f1b 127.0.0.1:30002@31002 slave,fail 07c3 0 0 1 disconnected\n');
  assert.deepEqual(member.slots, [[0, 99], [200, 200]]);
  assert.equal(slotCount(member), 101);
  assert.equal(member.host, 'host1');
  assert.deepEqual([replica.primary, replica.flags, replica.link, slotCount(replica)], ['07c3', ['slave', 'fail'], 'disconnected', 0]);
});
