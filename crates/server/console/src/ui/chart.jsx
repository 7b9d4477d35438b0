// Line charts over time, by uPlot.
import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { color, onTheme } from './color.js';

const HEIGHT = 150;

/** Distances of grid lines for bytes. */
const BINARY_STEPS = Array.from({ length: 50 }, (_, power) => 2 ** power);

const clock = (seconds) => new Date(1000 * seconds).toLocaleTimeString('sv');

/** Drops zeros after the decimal point, for axes. */
const short = (text) => text.replace(/(\.\d*?)0+(?!\d)/, '$1').replace(/\.(?!\d)/, '');

function options({ series, format, binary, width, height, onCursor }) {
  const axis = { stroke: () => color('--muted'), grid: { stroke: () => color('--grid'), width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif' };
  return {
    width,
    height,
    padding: [8, 12, 0, 0],
    cursor: { y: false, points: { size: 6 } },
    legend: { show: false },
    hooks: { setCursor: [({ cursor }) => onCursor(cursor.idx ?? null)] },
    scales: { y: { range: (plot, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
    axes: [
      { ...axis, space: 90, size: 26, values: (plot, values) => values.map(clock) },
      { ...axis, space: 36, size: 66, ...(binary ? { incrs: BINARY_STEPS } : {}), values: (plot, values) => values.map((value) => short(format(value))) },
    ],
    series: [{}, ...series.map(({ tone, fill }) => ({
      stroke: () => color(tone),
      fill: fill ? () => color(`${tone}-fill`) : undefined,
      width: 1.5,
      spanGaps: true,
      points: { show: false },
    }))],
  };
}

/**
 * `data` is `[times, values, ...]` with times in seconds; `series` are `{ label, tone, fill }`.
 * With `binary` the axis is divided at powers of two, for bytes.
 */
export function Chart({ label, data, series, format, binary = false, height = HEIGHT }) {
  const box = useRef(null);
  const plot = useRef(null);
  const [at, setAt] = useState(null);
  useEffect(() => {
    const element = box.current;
    const width = () => Math.max(element.clientWidth, 50);
    const chart = new uPlot(options({ series, format, binary, width: width(), height, onCursor: setAt }), data, element);
    plot.current = chart;
    const observer = new ResizeObserver(() => chart.setSize({ width: width(), height }));
    observer.observe(element);
    const endTheme = onTheme(() => chart.redraw(true, true));
    return () => {
      observer.disconnect();
      endTheme();
      chart.destroy();
    };
  }, []);
  useEffect(() => { plot.current.setData(data); }, [data]);
  const shown = at !== null && at < data[0].length ? at : data[0].length - 1;
  return <div class="chart">
    <div role="img" aria-label={label} ref={box} />
    <p class="legend note">
      {series.map((line, index) => <span key={line.label}><i style={{ background: `var(${line.tone})` }} aria-hidden="true" />{line.label} <b>{valueText(data[index + 1][shown], format)}</b></span>)}
      {at !== null && shown >= 0 && <span>{clock(data[0][shown])}</span>}
    </p>
  </div>;
}

const valueText = (value, format) => (value === null || value === undefined ? '–' : format(value));
