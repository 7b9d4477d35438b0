// Vector sets: elements in order of name, attributes, and neighbours of an element.
import { useState } from 'preact/hooks';
import { Bar, Bytes, Card, Loaded, Problem, Stat, Stats, Table } from '../../ui/basics.jsx';
import { attempt, confirm } from '../../ui/feedback.jsx';
import { FormDialog } from '../../ui/form-dialog.jsx';
import { useLoad } from '../../ui/hooks.js';
import { More, useCursor } from '../../ui/paging.jsx';
import { exact } from '../../ui/numbers.js';
import { ReplyError, toObject, concat } from '../../resp/codec.js';
import { display, toBytes, toPath, toText } from '../../resp/text.js';
import { pipeline, send } from '../../server/session.js';
import { RowActions } from './row-actions.jsx';

const PAGE = 100;
const NEIGHBOURS = 20;
/** Components of a vector that are shown. */
const COMPONENTS = 8;

async function withAttributes(name, elements) {
  const attributes = await pipeline(elements.map((element) => ['VGETATTR', name, element]));
  return elements.map((element, at) => ({ element, attributes: attributes[at] instanceof ReplyError ? null : attributes[at] }));
}

export function VectorSetValue({ name, meta, onChanged }) {
  const [selected, setSelected] = useState(null);
  const [dialog, setDialog] = useState(null);
  const info = useLoad(async () => toObject(await send('VINFO', name)), [name, meta]);
  const walk = useCursor(async ({ cursor }) => {
    const elements = await send('VRANGE', name, cursor ? concat([toBytes('('), cursor]) : '-', '+', PAGE);
    return { rows: await withAttributes(name, elements), cursor: elements.at(-1) ?? cursor, done: elements.length < PAGE };
  }, [name, meta]);
  const remove = async ({ element }) => {
    if (!await confirm({ title: 'Delete element', text: `${display(element)} is removed from the vector set.`, action: 'Delete', danger: true })) return;
    await attempt(() => send('VREM', name, element), 'Deleted.');
    onChanged();
  };
  return <>
    <Card title="Index"><Loaded state={info} what="VINFO">{(data) => <Stats>
      <Stat label="Dimensions" value={exact(data['vector-dim'])} />
      <Stat label="Quantization" value={toText(data['quant-type'])} />
      <Stat label="HNSW M" value={exact(data['hnsw-m'])} />
      <Stat label="Levels" value={exact(data['max-level'])} />
      <Stat label="With attributes" value={exact(data['attributes-count'])} />
    </Stats>}</Loaded></Card>
    <Card title="Elements" actions={<button type="button" onClick={() => setDialog({})}>Add</button>}>
      <Problem error={walk.error} what="VRANGE" />
      <Table label="Elements" rows={walk.rows} rowKey={({ element }) => toPath(element)} selected={selected && toPath(selected)} onRow={({ element }) => setSelected(element)} columns={[
        { name: 'Element', cell: ({ element }) => <button type="button" class="link"><Bytes value={element} max={80} /></button> },
        { name: 'Attributes', cell: ({ attributes }) => attributes && <Bytes value={attributes} />, class: 'wide-cell' },
        { name: '', cell: (row) => <RowActions edit={() => setDialog({ row })} remove={() => remove(row)} what={`element ${display(row.element)}`} />, class: 'row-actions' },
      ]} />
      <More walk={walk} total={meta.length} />
    </Card>
    {selected && <Neighbours key={toPath(selected)} name={name} element={selected} onSelect={setSelected} />}
    {dialog && <ElementDialog name={name} row={dialog.row} onClose={() => setDialog(null)} onChanged={onChanged} />}
  </>;
}

function Neighbours({ name, element, onSelect }) {
  const state = useLoad(async () => {
    const [similar, vector] = await pipeline([['VSIM', name, 'ELE', element, 'WITHSCORES', 'COUNT', NEIGHBOURS], ['VEMB', name, element]]);
    if (similar instanceof ReplyError) throw similar;
    return { similar, vector: vector instanceof ReplyError ? null : vector };
  }, [name, element]);
  return <Card title={`Neighbours of ${display(element)}`} note={state.data?.vector && vectorText(state.data.vector)}>
    <Loaded state={state} what="VSIM">{({ similar }) => <Table label="Neighbours" rows={similar} rowKey={([other]) => toPath(other)} onRow={([other]) => onSelect(other)} columns={[
      { name: 'Element', cell: ([other]) => <button type="button" class="link"><Bytes value={other} max={80} /></button> },
      { name: 'Similarity', cell: ([, score]) => <><Bar share={Number(score)} />{Number(score).toFixed(4)}</>, class: 'bar-cell' },
    ]} />}</Loaded>
  </Card>;
}

function vectorText(vector) {
  const shown = vector.slice(0, COMPONENTS).map((component) => Number(component).toPrecision(3)).join(', ');
  return `[${shown}${vector.length > COMPONENTS ? ', …' : ''}]`;
}

function ElementDialog({ name, row, onClose, onChanged }) {
  const attributes = { name: 'attributes', label: 'Attributes', kind: 'lines', rows: 4, initial: row?.attributes ? toText(row.attributes) : '', hint: 'A JSON object, or nothing.' };
  if (row) {
    return <FormDialog title={`Attributes of ${display(row.element)}`} onClose={onClose} fields={[attributes]} submit={async ({ attributes: text }) => {
      await send('VSETATTR', name, row.element, text.trim());
      onChanged();
    }} />;
  }
  return <FormDialog title="Add element" action="Add" onClose={onClose} fields={[
    { name: 'element', label: 'Element', kind: 'bytes' },
    { name: 'vector', label: 'Vector', kind: 'lines', rows: 3, hint: 'Numbers, separated by blanks or commas.' },
    attributes,
  ]} submit={async ({ element, vector, attributes: text }) => {
    await send(...vectorCommand(name, element, vector, text.trim()));
    onChanged();
  }} />;
}

/** Command that adds an element whose components are given as text. */
export function vectorCommand(name, element, text, attributes = '') {
  const components = text.split(/[\s,[\]]+/).filter(Boolean);
  if (components.length === 0 || !components.every((component) => Number.isFinite(Number(component)))) throw new Error('A vector is a list of numbers.');
  return ['VADD', name, 'VALUES', components.length, ...components, element, ...(attributes ? ['SETATTR', attributes] : [])];
}
