// Configuration: CONFIG GET *, CONFIG SET, CONFIG REWRITE.
import { useState } from 'preact/hooks';
import { Action, Loaded, Page, Table } from '../ui/basics.jsx';
import { confirm, notify } from '../ui/feedback.jsx';
import { FormDialog } from '../ui/form-dialog.jsx';
import { useLoad } from '../ui/hooks.js';
import { toText } from '../resp/text.js';
import { send } from '../server/session.js';

const PASSWORD = /(pass|auth|secret|passphrase)$/;

// Descriptions of parameters: lines of a name, a tab and a text.
async function loadHelp() {
  try {
    const response = await fetch('parameters.txt');
    return new Map((response.ok ? await response.text() : '').trimEnd().split('\n').map((line) => line.split('\t')));
  } catch {
    return new Map();
  }
}

async function load() {
  const values = await send('CONFIG', 'GET', '*');
  const help = await loadHelp();
  return values.map(([name, value]) => ({ name: toText(name), value: toText(value), help: help.get(toText(name)) ?? '' })).sort((a, b) => (a.name < b.name ? -1 : 1));
}

export function Configuration() {
  const state = useLoad(load, []);
  const [filter, setFilter] = useState('');
  const [edited, setEdited] = useState(null);
  const rewrite = async () => {
    const text = 'CONFIG REWRITE writes the parameters in effect to the configuration file that the server was started with.';
    if (!await confirm({ title: 'Write configuration file', text, action: 'Write' })) return '';
    await send('CONFIG', 'REWRITE');
    return 'Written.';
  };
  return <Page title="Configuration" actions={<>
    <input type="search" data-search placeholder="Filter" aria-label="Filter" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
    <Action run={rewrite}>Write to file</Action>
  </>}>
    <p class="note">Changes are in effect at once, and until the server stops unless they are written to its file.</p>
    <Loaded state={state} what="CONFIG GET">{(rows) => <div class="card"><Table label="Parameters" rows={rows.filter(({ name, value, help }) => `${name} ${value} ${help}`.toLowerCase().includes(filter.toLowerCase()))} rowKey={({ name }) => name} empty="No parameter matches." columns={[
      { name: 'Parameter', cell: ({ name, help }) => <><span class="mono">{name}</span>{help && <small class="help">{help}</small>}</> },
      { name: 'Value', cell: (row) => <span class="mono">{PASSWORD.test(row.name) && row.value ? '••••••' : row.value}</span>, class: 'wide-cell below' },
      { name: '', cell: (row) => <button type="button" class="quiet" aria-label={`Change ${row.name}`} title="Change" onClick={() => setEdited(row)}>✎</button>, class: 'row-actions' },
    ]} /></div>}</Loaded>
    {edited && <FormDialog title={edited.name} action="Set" onClose={() => setEdited(null)} fields={[{ name: 'value', label: 'Value', kind: PASSWORD.test(edited.name) ? 'password' : 'text', initial: edited.value }]}
      submit={async ({ value }) => {
        await send('CONFIG', 'SET', edited.name, value);
        notify(`${edited.name} is set.`);
        await state.reload();
      }}>{edited.help && <p class="prose">{edited.help}</p>}</FormDialog>}
  </Page>;
}
