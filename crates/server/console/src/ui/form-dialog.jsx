// A dialog with a form, described by a list of fields.
import { useRef, useState } from 'preact/hooks';
import { Field, Form, Select } from './basics.jsx';
import { BytesInput } from './bytes-input.jsx';
import { Dialog } from './feedback.jsx';

/**
 * Fields: `{ name, label, kind, initial, hint, options, rows }` with kind `bytes`, `text`, `password`,
 * `number`, `lines` or `select`. `submit(values)` gets their values by name; the dialog closes after it.
 */
export function FormDialog({ title, fields, submit, action = 'Save', onClose, danger, children }) {
  const handles = useRef({});
  const [values, setValues] = useState(() => Object.fromEntries(fields.map(({ name, initial = '' }) => [name, initial])));
  const set = (name, value) => setValues((old) => ({ ...old, [name]: value }));
  const read = () => Object.fromEntries(fields.map(({ name, kind }) => [name, kind === 'bytes' ? handles.current[name].current.bytes() : values[name]]));
  return <Dialog title={title} onClose={onClose}>
    {children}
    <Form label={title} onSubmit={async () => { await submit(read()); onClose(); }}>
      {fields.map((field, at) => <Field key={field.name} label={field.label} hint={field.hint}>
        <Input field={field} value={values[field.name]} autofocus={at === 0} onChange={(value) => set(field.name, value)} handles={handles.current} />
      </Field>)}
      <div class="actions">
        <button type="button" onClick={onClose}>Cancel</button>
        <button type="submit" class={danger ? 'danger' : 'primary'}>{action}</button>
      </div>
    </Form>
  </Dialog>;
}

function Input({ field, value, onChange, autofocus, handles }) {
  const { name, label, kind = 'text', options, rows = 1, initial } = field;
  const onInput = (event) => onChange(event.currentTarget.value);
  if (kind === 'bytes') {
    handles[name] ??= { current: null };
    return <BytesInput handle={handles[name]} initial={initial || undefined} label={label} rows={rows} autofocus={autofocus} />;
  }
  if (kind === 'select') return <Select value={value} options={options} label={label} onChange={onChange} />;
  if (kind === 'lines') return <textarea name={name} class="mono" rows={rows} value={value} spellcheck={false} data-autofocus={autofocus} onInput={onInput} />;
  const type = kind === 'password' ? 'password' : 'text';
  return <input name={name} class="mono" type={type} inputmode={kind === 'number' ? 'decimal' : undefined} autocomplete="off" value={value} data-autofocus={autofocus} onInput={onInput} />;
}
