// Columns sort by a click on their heads. Without this script the page lacks nothing else.
for (const table of document.querySelectorAll('table.sortable')) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener('click', () => {
      const isFigure = head.classList.contains('figure');
      const was = head.getAttribute('aria-sort');
      const falls = was ? was === 'ascending' : isFigure;
      const key = (row) => {
        const cell = row.cells[column];
        return 'value' in cell.dataset ? Number(cell.dataset.value) : cell.textContent;
      };
      const compare = (a, b) => {
        const x = key(a);
        const y = key(b);
        return typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y));
      };
      const rows = [...body.rows].sort((a, b) => (falls ? compare(b, a) : compare(a, b)));
      body.append(...rows);
      for (const other of heads) other.removeAttribute('aria-sort');
      head.setAttribute('aria-sort', falls ? 'descending' : 'ascending');
    });
  });
}
