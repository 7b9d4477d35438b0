// Users: rules, changes, and the log of refusals.
import { useState } from 'preact/hooks';
import { Action, Bytes, Card, Loaded, Page, Table, Tabs, Tag } from '../ui/basics.jsx';
import { attempt, confirm, notify } from '../ui/feedback.jsx';
import { FormDialog } from '../ui/form-dialog.jsx';
import { useLoad, useSession } from '../ui/hooks.js';
import { exact, time } from '../ui/numbers.js';
import { toObject } from '../resp/codec.js';
import { display, toText } from '../resp/text.js';
import { parseUser, ruleWords } from '../server/acl.js';
import { send } from '../server/session.js';

export function Acl() {
  const [tab, setTab] = useState('users');
  return <Page title="Users" wide>
    <Tabs label="Parts" value={tab} onChange={setTab} tabs={[['users', 'Users'], ['log', 'Refusals']]} />
    {tab === 'users' ? <Users /> : <Log />}
  </Page>;
}

function Users() {
  const { user: own } = useSession();
  const [edited, setEdited] = useState(null);
  const state = useLoad(async () => (await send('ACL', 'LIST')).map((line) => parseUser(toText(line))), []);
  const remove = async ({ name }) => {
    if (!await confirm({ title: 'Delete user', text: `User ${name} is deleted and its connections are closed.`, action: 'Delete', danger: true })) return;
    await attempt(() => send('ACL', 'DELUSER', name), 'Deleted.');
    await state.reload();
  };
  const save = async () => {
    if (!await confirm({ title: 'Write users to file', text: 'ACL SAVE writes all users to the file of the parameter aclfile.', action: 'Write' })) return '';
    await send('ACL', 'SAVE');
    return 'Written.';
  };
  return <Card title="Users" actions={<><Action run={save}>Write to file</Action><button type="button" class="primary" onClick={() => setEdited({ isNew: true })}>New user</button></>}>
    <Loaded state={state} what="ACL LIST">{(rows) => <Table label="Users" rows={rows} rowKey={({ name }) => name} columns={[
      { name: 'User', cell: ({ name }) => <>{name} {name === own && <Tag>you</Tag>}</>, sort: ({ name }) => name },
      { name: 'State', cell: ({ isOn }) => <Tag tone={isOn ? 'good' : 'off'}>{isOn ? 'on' : 'off'}</Tag> },
      { name: 'Password', cell: ({ withoutPassword, passwords }) => (withoutPassword ? <Tag tone="warn">none needed</Tag> : `${exact(passwords)} set`) },
      { name: 'Rules', cell: ({ rules }) => <span class="mono">{rules}</span>, class: 'wide-cell below' },
      { name: '', cell: (row) => <>
        <button type="button" class="quiet" aria-label={`Edit user ${row.name}`} title="Edit" onClick={() => setEdited(row)}>✎</button>
        {row.name !== 'default' && <button type="button" class="quiet" aria-label={`Delete user ${row.name}`} title="Delete" onClick={() => remove(row)}>✕</button>}
      </>, class: 'row-actions' },
    ]} />}</Loaded>
    {edited && <UserDialog user={edited} onClose={() => setEdited(null)} onChanged={state.reload} />}
  </Card>;
}

function UserDialog({ user, onClose, onChanged }) {
  const fields = [
    ...(user.isNew ? [{ name: 'name', label: 'Name' }] : []),
    { name: 'state', label: 'State', kind: 'select', initial: user.isNew || user.isOn ? 'on' : 'off', options: ['on', 'off'] },
    { name: 'password', label: 'New password', kind: 'password', hint: user.isNew ? '' : 'Empty: passwords stay as they are. A new one replaces all.' },
    { name: 'rules', label: 'Rules', kind: 'lines', rows: 4, initial: user.rules ?? '~app:* &app:* +@read +@write -@dangerous', hint: 'Keys ~pattern, channels &pattern, commands +name, +@category, -name. They replace the present rules.' },
  ];
  return <FormDialog title={user.isNew ? 'New user' : `User ${user.name}`} onClose={onClose} fields={fields} submit={async ({ name = user.name, state, password, rules }) => {
    const secret = password === '' ? [] : ['resetpass', `>${password}`];
    await send('ACL', 'SETUSER', name, state, ...secret, 'resetkeys', 'resetchannels', 'nocommands', 'clearselectors', ...ruleWords(rules));
    notify(`User ${name} is saved.`);
    await onChanged();
  }} />;
}

function Log() {
  const state = useLoad(async () => (await send('ACL', 'LOG', 100)).map(toObject), []);
  const reset = async () => {
    if (!await confirm({ title: 'Empty the log', text: 'All refusals are forgotten.', action: 'Empty', danger: true })) return '';
    await send('ACL', 'LOG', 'RESET');
    await state.reload();
    return 'Emptied.';
  };
  return <Card title="Refusals" note="ACL LOG, newest first" actions={<><Action run={state.reload}>Reload</Action><Action run={reset}>Empty</Action></>}>
    <Loaded state={state} what="ACL LOG">{(rows) => <Table label="Refusals" rows={rows} rowKey={(row) => String(row['entry-id'])} empty="Nothing was refused." columns={[
      { name: 'Time', cell: (row) => time(row['timestamp-last-updated']), class: 'nowrap' },
      { name: 'User', cell: ({ username }) => display(username) },
      { name: 'Reason', cell: ({ reason }) => toText(reason) },
      { name: 'Object', cell: ({ object }) => <Bytes value={object} max={80} />, class: 'mono' },
      { name: 'Context', cell: ({ context }) => toText(context) },
      { name: 'Times', cell: (row) => exact(row.count), class: 'number' },
      { name: 'Client', cell: (row) => <Bytes value={/addr=(\S+)/.exec(toText(row['client-info']))?.[1] ?? ''} />, class: 'mono' },
    ]} />}</Loaded>
  </Card>;
}
