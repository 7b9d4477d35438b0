// Line charts over time, by uPlot.
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { color, onTheme } from './color.js';

const HEIGHT = 150;

function options(series, format, width, height) {
  const axis = { stroke: () => color('--muted'), grid: { stroke: () => color('--grid'), width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif' };
  return {
    width,
    height,
    padding: [8, 8, 0, 0],
    cursor: { y: false, points: { size: 6 } },
    legend: { live: true },
    scales: { y: { range: (u, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
    axes: [{ ...axis, space: 70 }, { ...axis, size: 62, values: (u, values) => values.map((value) => format(value)) }],
    series: [
      { label: 'time', value: (u, value) => (value ? new Date(1000 * value).toLocaleTimeString('sv') : '–') },
      ...series.map(({ label, tone, fill }) => ({
        label,
        stroke: () => color(tone),
        fill: fill ? () => color(`${tone}-fill`) : undefined,
        width: 1.5,
        points: { show: false },
        value: (u, value) => (value === null || value === undefined ? '–' : format(value)),
      })),
    ],
  };
}

/** `data` is `[times, values, ...]` with times in seconds; `series` are `{ label, tone, fill }`. */
export function Chart({ label, data, series, format, height = HEIGHT }) {
  const box = useRef(null);
  const plot = useRef(null);
  useEffect(() => {
    const element = box.current;
    plot.current = new uPlot(options(series, format, Math.max(element.clientWidth, 50), height), data, element);
    const observer = new ResizeObserver(() => plot.current.setSize({ width: Math.max(element.clientWidth, 50), height }));
    observer.observe(element);
    const endTheme = onTheme(() => plot.current.redraw(true, true));
    return () => {
      observer.disconnect();
      endTheme();
      plot.current.destroy();
    };
  }, []);
  useEffect(() => { plot.current?.setData(data); }, [data]);
  return <div class="chart" role="img" aria-label={label} ref={box} />;
}
