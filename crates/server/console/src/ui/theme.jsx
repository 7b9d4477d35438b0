// Switch between the system's theme, light and dark; kept in the browser.
import { useState } from 'preact/hooks';

const KEY = 'petrel.theme';
const NEXT = { system: 'light', light: 'dark', dark: 'system' };
const ICON = { system: '◐', light: '☀', dark: '☾' };

function stored() {
  try {
    const value = localStorage.getItem(KEY);
    return value in NEXT ? value : 'system';
  } catch {
    return 'system';
  }
}

export function applyTheme(theme = stored()) {
  document.documentElement.style.colorScheme = theme === 'system' ? 'light dark' : theme;
  dispatchEvent(new Event('petrel-theme'));
}

export function ThemeSwitch() {
  const [theme, setTheme] = useState(stored);
  const change = () => {
    const next = NEXT[theme];
    try {
      localStorage.setItem(KEY, next);
    } catch { /* storage may be forbidden; the theme then lasts until the page is closed */ }
    setTheme(next);
    applyTheme(next);
  };
  return <button type="button" class="quiet" aria-label={`Theme: ${theme}`} title={`Theme: ${theme}`} onClick={change}>{ICON[theme]}</button>;
}
