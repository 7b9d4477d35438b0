// Messages, dialogs and confirmation, shown by the one `FeedbackHost`.
import { useEffect, useRef, useState } from 'preact/hooks';

const MESSAGE_TIME = 6000;
let host = null;

/** Shows a message for a few seconds. */
export function notify(text, kind = 'info') {
  host?.notify({ text, kind, id: Symbol('message') });
}

/** Asks for confirmation; resolves to whether it was given. */
export function confirm(question) {
  return new Promise((resolve) => host.ask({ ...question, resolve }));
}

/** Runs an action of a button: shows its error, or `done`. Resolves to whether it succeeded. */
export async function attempt(action, done) {
  try {
    const message = await action();
    const text = done ?? (typeof message === 'string' ? message : '');
    if (text) notify(text);
    return true;
  } catch (error) {
    notify(error.message, 'error');
    return false;
  }
}

export function FeedbackHost() {
  const [messages, setMessages] = useState([]);
  const [question, setQuestion] = useState(null);
  const dismiss = (id) => setMessages((old) => old.filter((message) => message.id !== id));
  host = {
    ask: setQuestion,
    notify(message) {
      setMessages((old) => [...old.slice(-3), message]);
      setTimeout(() => dismiss(message.id), MESSAGE_TIME);
    },
  };
  const answer = (value) => {
    question.resolve(value);
    setQuestion(null);
  };
  return <>
    <div class="messages" role="status" aria-live="polite">
      {messages.map(({ text, kind, id }) => <button key={id} type="button" class={`message ${kind}`} title="Dismiss" onClick={() => dismiss(id)}>{text}</button>)}
    </div>
    {question && <Dialog title={question.title} onClose={() => answer(false)}>
      <p class="prose">{question.text}</p>
      <div class="actions">
        <button type="button" onClick={() => answer(false)}>Cancel</button>
        <button type="button" class={question.danger ? 'danger' : 'primary'} data-autofocus onClick={() => answer(true)}>{question.action}</button>
      </div>
    </Dialog>}
  </>;
}

/** A modal dialog; Esc closes it. The element with `data-autofocus` is focused first. */
export function Dialog({ title, onClose, children, wide = false }) {
  const element = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    element.current.showModal();
    element.current.querySelector('[data-autofocus]')?.focus();
    return () => before?.focus?.();
  }, []);
  return <dialog ref={element} class={wide ? 'wide' : ''} aria-label={title} onCancel={(event) => { event.preventDefault(); onClose(); }}>
    <header class="dialog-head"><h2>{title}</h2><button type="button" class="quiet" aria-label="Close" onClick={onClose}>✕</button></header>
    {children}
  </dialog>;
}
