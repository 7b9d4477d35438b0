// Colours of the style sheet for canvases.

const probe = document.createElement('span');
probe.hidden = true;

/** Resolves a custom property such as `--series-1` to a colour of the current theme. */
export function color(property) {
  if (!probe.isConnected) document.body.append(probe);
  probe.style.color = `var(${property})`;
  return getComputedStyle(probe).color;
}

/** Calls `action` when the theme changes; returns a function that ends it. */
export function onTheme(action) {
  const query = matchMedia('(prefers-color-scheme: dark)');
  query.addEventListener('change', action);
  addEventListener('petrel-theme', action);
  return () => {
    query.removeEventListener('change', action);
    removeEventListener('petrel-theme', action);
  };
}
