// Heat map of latency over time: a column per sample, a row per power of two of microseconds.
import { useEffect, useRef, useState } from 'preact/hooks';
import { color, onTheme } from './color.js';
import { count, micros } from './numbers.js';

const LEFT = 62;
const BOTTOM = 18;
const HEIGHT = 190;
/** Columns that the map has room for at least; fewer are drawn at its right end. */
const MIN_COLUMNS = 60;

function range(columns) {
  let low = Infinity;
  let high = -Infinity;
  for (const { buckets } of columns) {
    for (const bucket of buckets.keys()) {
      low = Math.min(low, bucket);
      high = Math.max(high, bucket);
    }
  }
  return low > high ? [0, 10] : [Math.max(0, low - 1), Math.max(high + 1, low + 8)];
}

function layout(canvas, columns, capacity) {
  const [low, high] = range(columns);
  const width = canvas.clientWidth - LEFT;
  return { low, high, cellWidth: width / capacity, cellHeight: (HEIGHT - BOTTOM) / (high - low + 1), first: capacity - columns.length };
}

function draw(canvas, columns, capacity) {
  const ratio = devicePixelRatio || 1;
  canvas.width = canvas.clientWidth * ratio;
  canvas.height = HEIGHT * ratio;
  const context = canvas.getContext('2d');
  context.scale(ratio, ratio);
  const { low, high, cellWidth, cellHeight, first } = layout(canvas, columns, capacity);
  const most = Math.max(1, ...columns.flatMap(({ buckets }) => [...buckets.values()]));
  context.fillStyle = color('--heat');
  columns.forEach(({ buckets }, at) => {
    for (const [bucket, number] of buckets) {
      context.globalAlpha = 0.12 + 0.88 * (Math.log1p(number) / Math.log1p(most));
      const y = (high - bucket) * cellHeight;
      context.fillRect(LEFT + (first + at) * cellWidth, y, Math.ceil(cellWidth), Math.max(cellHeight - 1, 1));
    }
  });
  drawAxes(context, canvas.clientWidth, { low, high, cellHeight }, columns);
}

function drawAxes(context, width, { low, high, cellHeight }, columns) {
  context.globalAlpha = 1;
  context.fillStyle = color('--muted');
  context.font = '11px system-ui, sans-serif';
  context.textAlign = 'right';
  const step = Math.max(1, Math.ceil(16 / cellHeight));
  for (let bucket = low; bucket <= high; bucket += step) {
    context.fillText(micros(2 ** bucket), LEFT - 8, (high - bucket + 1) * cellHeight);
  }
  if (columns.length > 0) context.fillText(new Date(columns.at(-1).time * 1000).toLocaleTimeString('sv'), width, HEIGHT - 4);
}

/** `columns` are `{ time, buckets: Map of log2(µs) to calls }`, oldest first. */
export function Heatmap({ columns, label }) {
  const capacity = Math.max(MIN_COLUMNS, columns.length);
  const canvas = useRef(null);
  const [hint, setHint] = useState('');
  useEffect(() => {
    const element = canvas.current;
    const redraw = () => draw(element, columns, capacity);
    redraw();
    const observer = new ResizeObserver(redraw);
    observer.observe(element);
    const endTheme = onTheme(redraw);
    return () => {
      observer.disconnect();
      endTheme();
    };
  }, [columns]);
  const point = (event) => {
    const { low, high, cellWidth, cellHeight, first } = layout(canvas.current, columns, capacity);
    const column = columns[Math.floor((event.offsetX - LEFT) / cellWidth) - first];
    const bucket = high - Math.floor(event.offsetY / cellHeight);
    if (!column || bucket < low) return setHint('');
    setHint(`${new Date(column.time * 1000).toLocaleTimeString('sv')}: ${count(column.buckets.get(bucket) ?? 0)} calls of ${micros(2 ** (bucket - 1))} to ${micros(2 ** bucket)}`);
  };
  return <div class="heatmap">
    <canvas ref={canvas} role="img" aria-label={label} onPointerMove={point} onPointerLeave={() => setHint('')} />
    <p class="note" aria-live="off">{hint || 'Stronger colour: more calls.'}</p>
  </div>;
}
