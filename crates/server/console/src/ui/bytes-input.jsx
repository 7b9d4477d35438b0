// Editor of binary values as text, escaped text or hexadecimal digits.
import { useImperativeHandle, useRef, useState } from 'preact/hooks';
import { escapeBytes, fromHex, printable, toBytes, toHex, unescapeBytes } from '../resp/text.js';
import { Select } from './basics.jsx';

const FORMATS = [['text', 'text'], ['escaped', 'escaped'], ['hex', 'hex']];

function write(bytes, format) {
  if (format === 'text') return printable(bytes);
  return format === 'hex' ? toHex(bytes) : escapeBytes(bytes);
}

function read(text, format) {
  if (format === 'text') return toBytes(text);
  return format === 'hex' ? fromHex(text) : unescapeBytes(text);
}

/**
 * Edits bytes. `handle.current.bytes()` returns them, or throws if the text is malformed.
 * Values that are not printable text begin as escaped text.
 */
export function BytesInput({ initial = new Uint8Array(0), handle, label, rows = 1, autofocus, placeholder }) {
  const first = printable(initial) === null ? 'escaped' : 'text';
  const [format, setFormat] = useState(first);
  const [text, setText] = useState(() => write(initial, first));
  const [problem, setProblem] = useState('');
  const area = useRef(null);
  useImperativeHandle(handle, () => ({ bytes: () => read(text, format), focus: () => area.current.focus() }), [text, format]);
  const convert = (next) => {
    try {
      const converted = write(read(text, format), next);
      if (converted === null) throw new SyntaxError('these bytes are not printable text');
      setText(converted);
      setFormat(next);
      setProblem('');
    } catch (error) {
      setProblem(error.message);
    }
  };
  const onKeyDown = (event) => {
    if (event.key === 'Enter' && (rows === 1 ? !event.shiftKey : event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      event.currentTarget.form?.requestSubmit();
    }
  };
  return <span class="bytes-input">
    <textarea ref={area} class="mono" aria-label={label} rows={rows} value={text} spellcheck={false} autocomplete="off" placeholder={placeholder}
      data-autofocus={autofocus} onInput={(event) => setText(event.currentTarget.value)} onKeyDown={onKeyDown} />
    <Select label={`Format of ${label ?? 'the value'}`} value={format} options={FORMATS} onChange={convert} />
    {problem && <small class="error" role="alert">{problem}</small>}
  </span>;
}
