/** Buttons of a row for editing and deleting it. */
export function RowActions({ edit, remove, what }) {
  return <>
    {edit && <button type="button" class="quiet" aria-label={`Edit ${what}`} title="Edit" onClick={edit}>✎</button>}
    {remove && <button type="button" class="quiet" aria-label={`Delete ${what}`} title="Delete" onClick={remove}>✕</button>}
  </>;
}
