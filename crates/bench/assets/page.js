'use strict';
// The page of the benchmarks: tables and plots from the JSON document in #data.
const data = JSON.parse(document.getElementById('data').textContent);
const page = document.getElementById('page');
const contents = document.getElementById('contents');
// Colours that stay apart for colour-blind readers, after Okabe and Ito.
const COLOURS = ['#d55e00', '#0072b2', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#7f7f7f', '#b8a800'];
const LOG_FROM = 50;
const plots = [];

function make(parent, tag, text, classes) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (classes) element.className = classes;
  parent.append(element);
  return element;
}

// Text in which `code` stands between backticks.
function prose(parent, text, classes) {
  text = text.replaceAll('**', '');
  const paragraph = make(parent, 'p', undefined, classes);
  text.split('`').forEach((part, at) => {
    if (at % 2) make(paragraph, 'code', part); else paragraph.append(part);
  });
  return paragraph;
}

function chapter(id, title) {
  const heading = make(page, 'h2', title);
  heading.id = id;
  make(contents, 'a', title).href = '#' + id;
}

// What a cell is sorted by: its first number, if it begins with one.
function key(text) {
  const number = /^[+-]?\d[\d.]*(e[+-]?\d+)?/i.exec(text);
  return number ? parseFloat(number[0]) : null;
}

// A column of figures, with their spread or a second figure, stands to the right.
const FIGURE = /^(\*\*)?(|–|[+-]?[\d.]+ ?(x|%|[kM]?)(( to | ?±| \().*)?)(\*\*)?$/;

function table(parent, {header, rows}) {
  if (!rows.length) return;
  const isText = header.map((_, at) => at === 0 || !rows.every(cells => FIGURE.test(cells[at])));
  const element = make(make(parent, 'div', undefined, 'scroll'), 'table');
  const head = make(make(element, 'thead'), 'tr');
  const body = make(element, 'tbody');
  const lines = rows.map(cells => {
    const line = make(body, 'tr');
    cells.forEach((text, at) => {
      const marked = /^\*\*(.*)\*\*$/s.exec(text);
      const shown = (marked ? marked[1] : text).replaceAll('`', '');
      const cell = make(line, 'td', shown);
      if (marked) { cell.classList.add('lost'); cell.title = `${data.base} is not the best here`; }
      if (/^better/.test(shown)) cell.classList.add('won');
      if (isText[at]) cell.classList.add('text');
    });
    return line;
  });
  header.forEach((title, at) => {
    const cell = make(head, 'th', title, isText[at] ? 'text' : undefined);
    cell.tabIndex = 0;
    const sort = () => {
      const falling = cell.getAttribute('aria-sort') === 'ascending';
      head.querySelectorAll('th').forEach(other => other.removeAttribute('aria-sort'));
      cell.setAttribute('aria-sort', falling ? 'descending' : 'ascending');
      const text = line => line.children[at].textContent;
      const order = (one, other) => {
        const [a, b] = [key(text(one)), key(text(other))];
        // What is not a number stays behind the numbers in either direction.
        if ((a === null) !== (b === null)) return a === null ? 1 : -1;
        const compared = a === null ? text(one).localeCompare(text(other)) : a - b;
        return falling ? -compared : compared;
      };
      body.append(...lines.slice().sort(order));
    };
    cell.addEventListener('click', sort);
    cell.addEventListener('keydown', event => { if (event.key === 'Enter') sort(); });
  });
}

function isWide(values) {
  const above = values.filter(value => value > 0);
  return above.length > 0 && Math.max(...above) > LOG_FROM * Math.min(...above);
}

// Logarithms where values are far apart: of a value, and the marks on its axis.
function scale(values) {
  return isWide(values) ? value => value > 0 ? Math.log10(value) : null : value => value;
}

function powers(values) {
  if (!isWide(values)) return {};
  const above = values.filter(value => value > 0).map(Math.log10);
  const marks = [];
  for (let power = Math.floor(Math.min(...above)); power <= Math.ceil(Math.max(...above)); power++) marks.push(power);
  return {tickvals: marks, ticktext: marks.map(power => String(+(10 ** power).toPrecision(1)))};
}

function layout(chart) {
  const style = getComputedStyle(document.documentElement);
  const [ink, rule, back] = ['--ink', '--rule', '--back'].map(name => style.getPropertyValue(name).trim());
  const axis = title => ({title: {text: title}, gridcolor: rule, zerolinecolor: rule, linecolor: rule, color: ink,
    automargin: true});
  const shared = {title: {text: chart.title, font: {size: 15}, x: 0, xanchor: 'left', xref: 'paper'},
    paper_bgcolor: back, plot_bgcolor: back, font: {color: ink, size: 13}, margin: {l: 70, r: 20, t: 46, b: 50},
    hoverlabel: {bgcolor: back, bordercolor: rule, font: {color: ink}}};
  if (chart.surface) {
    const side = title => ({...axis(title), backgroundcolor: back, showbackground: true});
    const {x, z} = chart.surface;
    return {...shared, margin: {l: 0, r: 0, t: 46, b: 0}, scene: {
      xaxis: {...side('connections'), ...powers(x)}, yaxis: side('percentile'),
      zaxis: {...side('ms'), ...powers(z.flat())},
      aspectmode: 'manual', aspectratio: {x: 1.3, y: 1.1, z: 0.8}, camera: {eye: {x: -1.5, y: -1.5, z: 0.9}}}};
  }
  const values = chart.series.flatMap(series => series.points.map(point => point[1]));
  const y = {...axis(chart.y_label), type: isWide(values) ? 'log' : 'linear', rangemode: 'tozero'};
  const x = axis(chart.x_label);
  if (!chart.categories.length) {
    const isLog = isWide(chart.series.flatMap(series => series.points.map(point => point[0])));
    x.type = isLog ? 'log' : 'linear';
  }
  return {...shared, barmode: 'group', bargap: 0.2, bargroupgap: 0.06, hovermode: 'x unified',
    legend: {orientation: 'h', y: -0.22, yanchor: 'top'}, xaxis: x, yaxis: y};
}

function traces(chart) {
  if (chart.surface) {
    const {x, y, z} = chart.surface;
    const height = scale(z.flat());
    const text = z.map((line, row) => line.map((ms, at) => `${x[at]} connections<br>percentile ${y[row]}<br>${ms} ms`));
    return [{type: 'surface', x: x.map(scale(x)), y, z: z.map(line => line.map(height)), text, hoverinfo: 'text',
      colorscale: 'Viridis', colorbar: {title: {text: 'ms'}, len: 0.6, ...powers(z.flat())}}];
  }
  return chart.series.map(({name, points}, number) => {
    const colour = COLOURS[number % COLOURS.length];
    const spread = {type: 'data', array: points.map(point => point[2]), visible: points.some(point => point[2] > 0),
      color: colour, thickness: 1.2, width: 3};
    const values = {name, x: points.map(point => chart.categories[point[0]] ?? point[0]),
      y: points.map(point => point[1]), error_y: spread};
    if (chart.categories.length) {
      const error = {...spread, color: getComputedStyle(document.documentElement).getPropertyValue('--faint').trim()};
      return {...values, type: 'bar', marker: {color: colour}, error_y: error};
    }
    // More series than colours are told apart by their lines.
    const dash = ['solid', 'dash', 'dot', 'dashdot'][Math.floor(number / COLOURS.length) % 4];
    return {...values, type: 'scatter', mode: 'lines+markers', line: {color: colour, width: 2, dash}, marker: {size: 7}};
  });
}

function draw({element, chart}) {
  Plotly.react(element, traces(chart), layout(chart), {responsive: true, displaylogo: false, displayModeBar: 'hover'});
}

function show(plot) {
  if (plot.isDrawn) return;
  plot.isDrawn = true;
  draw(plot);
}

// Surfaces are drawn when they come into view: a browser holds only so many at once.
const watcher = new IntersectionObserver(entries => {
  for (const entry of entries) {
    const plot = plots.find(plot => plot.element === entry.target);
    if (entry.isIntersecting) show(plot);
    else if (plot.isDrawn && plot.chart.surface) { plot.isDrawn = false; Plotly.purge(plot.element); }
  }
}, {rootMargin: '400px'});

// The others follow one by one, so that the page can be read and printed meanwhile.
function showRest() {
  const next = plots.find(plot => !plot.isDrawn && !plot.chart.surface);
  if (!next) return;
  show(next);
  setTimeout(showRest);
}

function plot(parent, chart) {
  const element = make(parent, 'div', undefined, chart.surface ? 'plot surface' : 'plot');
  plots.push({element, chart, isDrawn: false});
  watcher.observe(element);
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  plots.filter(plot => plot.isDrawn).forEach(draw);
}

function experiment(file) {
  chapter(file.name, file.title);
  if (file.quick) prose(page, file.quick, 'note');
  prose(page, file.about);
  make(page, 'pre', file.command);
  prose(page, file.facts, 'faint');
  if (file.summary.length) {
    const list = make(page, 'ul', undefined, 'lines');
    file.summary.forEach(line => make(list, 'li', line));
  }
  for (const view of file.views) {
    if (view.title) make(page, 'h3', view.title);
    for (const section of view.sections) {
      if (section.heading) make(page, 'h4', section.heading);
      if (section.plot) plot(page, section.plot);
      table(page, section.table);
    }
  }
  const more = make(page, 'details');
  make(more, 'summary', 'Servers, options and checks');
  table(more, file.servers);
  prose(more, file.options);
  prose(more, file.checked);
  table(more, file.checks);
}

const wanted = new URLSearchParams(location.search).get('theme');
const prefersDark = matchMedia('(prefers-color-scheme: dark)');
document.documentElement.dataset.theme = wanted ?? (prefersDark.matches ? 'dark' : 'light');
const toggle = make(contents, 'button', 'Light or dark');
toggle.id = 'theme';
toggle.addEventListener('click', () => theme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark'));
prefersDark.addEventListener('change', () => { if (!wanted) theme(prefersDark.matches ? 'dark' : 'light'); });

make(page, 'h1', data.title);
data.introduction.forEach(text => prose(page, text));
if (data.quick) prose(page, data.quick, 'note');
table(page, data.versions);
chapter('published', 'Beside published benchmarks');
prose(page, `What each document says of its own server, and what was measured here of ${data.base} over the best of the `
  + 'same peer at the same points. Above 1 is better in every row, whatever the figure.');
data.documents.forEach(({title, about, table: rows}) => {
  make(page, 'h3', title);
  prose(page, about);
  table(page, rows);
});
chapter('score', 'Won and lost');
table(page, data.score);
data.experiments.forEach(experiment);
setTimeout(showRest);
