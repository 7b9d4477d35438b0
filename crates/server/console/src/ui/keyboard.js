// Keyboard: `/` searches, `g` and a letter opens a page, `?` lists the keys, Esc leaves a field.
import { useEffect } from 'preact/hooks';
import { navigate } from './hooks.js';

const SEQUENCE_TIME = 1200;

const isTyping = (element) => element instanceof HTMLElement && (element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName));

export function useKeyboard(pages, showHelp) {
  useEffect(() => {
    let afterG = 0;
    const onKey = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
      if (isTyping(event.target)) {
        if (event.key === 'Escape') event.target.blur();
        return;
      }
      const page = performance.now() - afterG < SEQUENCE_TIME && pages.find(({ key }) => key === event.key);
      afterG = event.key === 'g' ? performance.now() : 0;
      if (page) navigate(page.name);
      else if (event.key === '/') document.querySelector('[data-search]')?.focus();
      else if (event.key === '?') showHelp();
      else return;
      event.preventDefault();
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);
}
