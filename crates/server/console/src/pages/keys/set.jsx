// Sets: members by SSCAN.
import { useState } from 'preact/hooks';
import { Bytes, Card, Problem, Table } from '../../ui/basics.jsx';
import { attempt, confirm } from '../../ui/feedback.jsx';
import { FormDialog } from '../../ui/form-dialog.jsx';
import { More, useCursor } from '../../ui/paging.jsx';
import { display, equal, toPath } from '../../resp/text.js';
import { isEnd } from '../../server/scan.js';
import { send, transaction } from '../../server/session.js';
import { scanElements } from './elements.js';
import { Filter } from './filter.jsx';
import { RowActions } from './row-actions.jsx';

export function SetValue({ name, meta, onChanged }) {
  const [pattern, setPattern] = useState('');
  const [dialog, setDialog] = useState(null);
  const walk = useCursor(async ({ cursor, isStale }) => {
    const page = await scanElements('SSCAN', name, { cursor, pattern, isStale });
    return { rows: page.elements, cursor: page.cursor, done: isEnd(page.cursor) };
  }, [name, meta, pattern]);
  const remove = async (member) => {
    if (!await confirm({ title: 'Delete member', text: `${display(member).slice(0, 80)} is removed from the set.`, action: 'Delete', danger: true })) return;
    await attempt(() => send('SREM', name, member), 'Deleted.');
    onChanged();
  };
  const save = async ({ member }) => {
    if (!dialog.member) await send('SADD', name, member);
    else if (!equal(member, dialog.member)) await transaction([['SREM', name, dialog.member], ['SADD', name, member]]);
    onChanged();
  };
  return <Card title="Members" actions={<><Filter onChange={setPattern} label="Pattern of members" /><button type="button" onClick={() => setDialog({})}>Add</button></>}>
    <Problem error={walk.error} what="SSCAN" />
    <Table label="Members" rows={walk.rows} rowKey={toPath} columns={[
      { name: 'Member', cell: (member) => <Bytes value={member} />, class: 'wide-cell' },
      { name: '', cell: (member) => <RowActions edit={() => setDialog({ member })} remove={() => remove(member)} what={`member ${display(member)}`} />, class: 'row-actions' },
    ]} />
    <More walk={walk} total={pattern === '' ? meta.length : undefined} />
    {dialog && <FormDialog title={dialog.member ? 'Change member' : 'Add member'} onClose={() => setDialog(null)} fields={[{ name: 'member', label: 'Member', kind: 'bytes', initial: dialog.member, rows: 3 }]} submit={save} />}
  </Card>;
}
