/** Pattern of the elements that are shown; takes effect on Enter. */
export function Filter({ onChange, label = 'Pattern of elements' }) {
  return <form class="filter" onSubmit={(event) => { event.preventDefault(); onChange(event.currentTarget.elements.pattern.value); }}>
    <input name="pattern" type="search" class="mono" placeholder="Filter, such as a*" aria-label={label} onChange={(event) => event.currentTarget.value === '' && onChange('')} />
  </form>;
}
