// Small building blocks: headings, statistics, tables, forms.
import { display } from '../resp/text.js';
import { attempt } from './feedback.jsx';
import { useState } from 'preact/hooks';

export function Page({ title, actions, children, wide }) {
  return <main class={`page ${wide ? 'full' : ''}`} tabindex={-1}>
    <header class="page-head"><h1>{title}</h1>{actions && <div class="actions">{actions}</div>}</header>
    {children}
  </main>;
}

export function Card({ title, note, actions, children, class: kind = '' }) {
  return <section class={`card ${kind}`} aria-label={title}>
    {(title || actions) && <header class="card-head"><h2>{title}</h2>{note && <span class="note">{note}</span>}{actions && <div class="actions">{actions}</div>}</header>}
    {children}
  </section>;
}

/** A figure with its name; `title` explains it. */
export function Stat({ label, value, note, tone = '', title }) {
  return <div class={`stat ${tone}`} title={title}><dt>{label}</dt><dd>{value}{note && <small>{note}</small>}</dd></div>;
}

export const Stats = ({ children }) => <dl class="stats">{children}</dl>;

/** Shows why something is not there: the server's error as it is, NOPERM with the reason in front. */
export function Problem({ error, what }) {
  if (!error) return null;
  const denied = error.code === 'NOPERM';
  return <div class={`problem ${denied ? 'denied' : ''}`} role="alert">
    {denied ? `Not permitted for this user${what ? `: ${what}` : ''}. ` : ''}<span class="mono">{error.message}</span>
  </div>;
}

export const Empty = ({ children }) => <p class="empty">{children}</p>;

/** Shows `children(data)` when loaded; the error, or a placeholder, before. */
export function Loaded({ state, what, children }) {
  return <>
    <Problem error={state.error} what={what} />
    {state.data === undefined ? !state.error && <p class="empty" aria-busy="true">Waiting for the server …</p> : children(state.data)}
  </>;
}

/**
 * A table. Columns: `{ name, cell(row), class, sort(row), width }`. Rows are sorted by a column with `sort`
 * when its head is activated.
 */
export function Table({ columns, rows, rowKey, onRow, selected, empty = 'Nothing here.', label, initialSort }) {
  const [order, setOrder] = useState(initialSort ?? null);
  const by = order && columns.find((column) => column.name === order.name);
  const sorted = by ? [...rows].sort((a, b) => compare(by.sort(a), by.sort(b)) * (order.down ? -1 : 1)) : rows;
  const toggle = (name) => setOrder((old) => ({ name, down: old?.name === name ? !old.down : true }));
  return <div class="table-box">
    <table aria-label={label}>
      <thead><tr>{columns.map((column) => <Head key={column.name} column={column} order={order} onSort={() => toggle(column.name)} />)}</tr></thead>
      <tbody>{sorted.map((row, at) => {
        const key = rowKey ? rowKey(row, at) : at;
        return <tr key={key} class={`${onRow ? 'clickable' : ''} ${selected !== undefined && selected === key ? 'selected' : ''}`} onClick={onRow && (() => onRow(row))}>
          {columns.map((column) => <td key={column.name} class={column.class}>{column.cell(row, at)}</td>)}
        </tr>;
      })}</tbody>
    </table>
    {rows.length === 0 && <Empty>{empty}</Empty>}
  </div>;
}

function Head({ column, order, onSort }) {
  if (!column.sort) return <th class={column.class} scope="col">{column.name}</th>;
  const direction = order?.name === column.name ? (order.down ? 'descending' : 'ascending') : 'none';
  return <th class={column.class} scope="col" aria-sort={direction}>
    <button type="button" class="sort" onClick={onSort}>{column.name}<span aria-hidden="true">{{ ascending: ' ↑', descending: ' ↓', none: '' }[direction]}</span></button>
  </th>;
}

const compare = (a, b) => (a === b ? 0 : a === undefined || a === null ? -1 : b === undefined || b === null ? 1 : a < b ? -1 : 1);

/** A button whose action is asynchronous: disabled meanwhile, errors are shown. */
export function Action({ run, done, children, class: kind = '', ...rest }) {
  const [busy, setBusy] = useState(false);
  const click = async (event) => {
    event.stopPropagation();
    setBusy(true);
    await attempt(run, done);
    setBusy(false);
  };
  return <button type="button" class={kind} disabled={busy} aria-busy={busy} {...rest} onClick={click}>{children}</button>;
}

/** A form that submits by Enter and by its button; errors are shown below it. */
export function Form({ onSubmit, children, class: kind = 'form', label }) {
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    try {
      await onSubmit();
      setError(null);
    } catch (failure) {
      setError(failure);
    }
    setBusy(false);
  };
  return <form class={kind} aria-label={label} aria-busy={busy} onSubmit={submit}>{children}<Problem error={error} /></form>;
}

export function Field({ label, hint, children }) {
  return <label class="field"><span>{label}</span>{children}{hint && <small>{hint}</small>}</label>;
}

export function Select({ value, onChange, options, label }) {
  return <select value={value} aria-label={label} onChange={(event) => onChange(event.currentTarget.value)}>
    {options.map((option) => {
      const [key, text] = Array.isArray(option) ? option : [option, option];
      return <option key={key} value={key} selected={key === value}>{text}</option>;
    })}
  </select>;
}

export function Tabs({ value, onChange, tabs, label }) {
  return <div class="tabs" role="tablist" aria-label={label}>
    {tabs.map(([key, text]) => <button key={key} type="button" role="tab" aria-selected={key === value} onClick={() => onChange(key)}>{text}</button>)}
  </div>;
}

/** A binary value as text, cut to `max` characters. */
export function Bytes({ value, max = 200 }) {
  const text = display(value);
  return <span class={`bytes ${value === null ? 'nil' : ''}`} title={text.length > max ? `${text.length} characters` : undefined}>{text.length > max ? `${text.slice(0, max)}…` : text}</span>;
}

export const Tag = ({ children, tone = '' }) => <span class={`tag ${tone}`}>{children}</span>;

/** A bar that shows a share of the whole. */
export function Bar({ share, tone = '' }) {
  const width = `${Math.max(0, Math.min(1, share || 0)) * 100}%`;
  return <span class={`bar ${tone}`} aria-hidden="true"><span style={{ width }} /></span>;
}
