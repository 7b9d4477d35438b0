// Dialog that creates a key of any type.
import { useRef, useState } from 'preact/hooks';
import { Field, Form, Select } from '../../ui/basics.jsx';
import { BytesInput } from '../../ui/bytes-input.jsx';
import { Dialog } from '../../ui/feedback.jsx';
import { send } from '../../server/session.js';
import { changeIfSame } from '../../server/edit.js';
import { TYPES } from '../../server/types.js';
import { checked } from './json.jsx';
import { splitPairs } from './stream.jsx';
import { vectorCommand } from './vector-set.jsx';

/** Inputs of each type, and the command that creates a key of them. */
const KINDS = {
  string: { fields: [['value', 'Value', '']], command: (key, { value }) => ['SET', key, value] },
  list: { fields: [['value', 'First element', '']], command: (key, { value }) => ['RPUSH', key, value] },
  hash: { fields: [['pairs', 'Fields and values', 'name "Ann Lee" age 33']], command: (key, { pairs }) => ['HSET', key, ...splitPairs(pairs)] },
  set: { fields: [['value', 'First member', '']], command: (key, { value }) => ['SADD', key, value] },
  zset: { fields: [['value', 'First member', ''], ['score', 'Score', '0']], command: (key, { value, score }) => ['ZADD', key, score, value] },
  stream: { fields: [['pairs', 'Fields and values of the first entry', 'event login user ann']], command: (key, { pairs }) => ['XADD', key, '*', ...splitPairs(pairs)] },
  'ReJSON-RL': { fields: [['json', 'JSON', '{"name": "Ann"}']], command: (key, { json }) => ['JSON.SET', key, '$', checked(json)] },
  vectorset: { fields: [['value', 'First element', ''], ['vector', 'Vector', '0.1 0.2 0.3']], command: (key, { value, vector }) => vectorCommand(key, value, vector) },
  array: { fields: [['value', 'First element', '']], command: (key, { value }) => ['ARSET', key, 0, value] },
  'MBbloom--': { fields: [['error', 'Error rate', '0.01'], ['capacity', 'Capacity', '10000']], command: (key, { error, capacity }) => ['BF.RESERVE', key, error, capacity] },
  'CMSk-TYPE': { fields: [['error', 'Error rate', '0.001'], ['probability', 'Probability', '0.01']], command: (key, { error, probability }) => ['CMS.INITBYPROB', key, error, probability] },
  'MBbloomCF': { fields: [['capacity', 'Capacity', '10000']], command: (key, { capacity }) => ['CF.RESERVE', key, capacity] },
  'TopK-TYPE': { fields: [['count', 'Number of items', '50']], command: (key, { count }) => ['TOPK.RESERVE', key, count] },
  'TDIS-TYPE': { fields: [['compression', 'Compression', '100']], command: (key, { compression }) => ['TDIGEST.CREATE', key, 'COMPRESSION', compression] },
};

/** Numbers are given in advance, other examples only hint. */
const initial = (example) => (/^[\d.]+$/.test(example) ? example : '');

export function CreateKey({ onClose, onCreated }) {
  const name = useRef(null);
  const [type, setType] = useState('string');
  const [values, setValues] = useState({});
  const { fields, command } = KINDS[type];
  const submit = async () => {
    const key = name.current.bytes();
    const given = Object.fromEntries(fields.map(([field, , example]) => [field, values[field] ?? initial(example)]));
    if (await send('EXISTS', key) > 0) throw new Error('A key of this name exists already.');
    await changeIfSame(key, ['EXISTS', key], (exists) => exists === 0, [command(key, given)]);
    onClose();
    onCreated(key);
  };
  return <Dialog title="New key" onClose={onClose}>
    <Form label="New key" onSubmit={submit}>
      <Field label="Type"><Select label="Type of the new key" value={type} options={TYPES} onChange={setType} /></Field>
      <Field label="Name"><BytesInput handle={name} label="Name" autofocus /></Field>
      {fields.map(([field, label, example]) => <Field key={type + field} label={label}>
        <textarea name={field} class="mono" rows={field === 'json' || field === 'value' ? 3 : 1} value={values[field] ?? initial(example)} placeholder={example} spellcheck={false}
          onInput={(event) => setValues({ ...values, [field]: event.currentTarget.value })} />
      </Field>)}
      <div class="actions"><button type="button" onClick={onClose}>Cancel</button><button type="submit" class="primary">Create</button></div>
    </Form>
  </Dialog>;
}
