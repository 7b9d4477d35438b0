// Bloom filters and count-min sketches: figures, and questions about single items.
import { useState } from 'preact/hooks';
import { Card, Loaded, Stat, Stats } from '../../ui/basics.jsx';
import { notify } from '../../ui/feedback.jsx';
import { FormDialog } from '../../ui/form-dialog.jsx';
import { useLoad } from '../../ui/hooks.js';
import { exact } from '../../ui/numbers.js';
import { toObject } from '../../resp/codec.js';
import { display } from '../../resp/text.js';
import { send } from '../../server/session.js';

function Sketch({ name, meta, title, command, actions }) {
  const [action, setAction] = useState(null);
  const info = useLoad(async () => toObject(await send(command, name)), [name, meta]);
  return <Card title={title} actions={actions.map((item) => <button key={item.title} type="button" onClick={() => setAction(item)}>{item.title}</button>)}>
    <Loaded state={info} what={command}>{(data) => <Stats>{Object.entries(data).map(([label, value]) => <Stat key={label} label={label} value={typeof value === 'number' ? exact(value) : display(value)} />)}</Stats>}</Loaded>
    {action && <FormDialog title={action.title} action={action.title} onClose={() => setAction(null)} fields={action.fields} submit={action.submit} />}
  </Card>;
}

const item = { name: 'item', label: 'Item', kind: 'bytes' };

export function BloomValue({ name, meta, onChanged }) {
  return <Sketch name={name} meta={meta} title="Bloom filter" command="BF.INFO" actions={[
    { title: 'Ask', fields: [item], submit: async ({ item: value }) => notify(`${display(value)}: ${Number(await send('BF.EXISTS', name, value)) ? 'probably added' : 'never added'}`) },
    { title: 'Add', fields: [item], submit: async ({ item: value }) => { await send('BF.ADD', name, value); onChanged(); } },
  ]} />;
}

export function CountMinValue({ name, meta, onChanged }) {
  return <Sketch name={name} meta={meta} title="Count-min sketch" command="CMS.INFO" actions={[
    { title: 'Ask', fields: [item], submit: async ({ item: value }) => notify(`${display(value)}: at most ${exact((await send('CMS.QUERY', name, value))[0])}`) },
    { title: 'Add', fields: [item, { name: 'number', label: 'Increment', kind: 'number', initial: '1' }], submit: async ({ item: value, number }) => { await send('CMS.INCRBY', name, value, number); onChanged(); } },
  ]} />;
}
