/**
 * Writes the report as one self-contained page: figures in tables, and plots drawn here as SVG. It uses the JSON report
 * only.
 */

import { STAGES } from '#runtime/stage-meter.ts'
import { Histogram, type HistogramJson } from './histogram.ts'
import type { LoadReport } from './report.ts'

const WIDTH = 860
const HEIGHT = 260
const LEFT = 64
const RIGHT = 16
const TOP = 14
const BOTTOM = 34
const COLOURS = [
  '#2563eb',
  '#d97706',
  '#16a34a',
  '#dc2626',
  '#7c3aed',
  '#0891b2',
  '#be185d',
  '#4b5563',
]

type Point = readonly [x: number, y: number]
type Series = { readonly name: string; readonly points: readonly Point[] }
type Plot = {
  readonly series: readonly Series[]
  readonly yName: string
  readonly xName: string
  readonly logarithmic?: boolean
  readonly xLabels?: readonly (readonly [at: number, text: string])[]
}

export function escapeHtml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}

const short = (value: number): string => {
  if (!Number.isFinite(value)) return '–'
  if (value === 0) return '0'
  const size = Math.abs(value)
  if (size >= 1_000) return Math.round(value).toLocaleString('en')
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : 3)
}

/** Returns round numbers that cover the range. */
function ticksOf(least: number, most: number, logarithmic: boolean): number[] {
  const ticks: number[] = []
  if (logarithmic) {
    for (let tick = 10 ** Math.floor(Math.log10(least)); tick <= most * 1.001; tick *= 10) {
      if (tick >= least * 0.999) ticks.push(tick)
    }
    return ticks
  }
  const raw = (most - least) / 5 || 1
  const unit = 10 ** Math.floor(Math.log10(raw))
  const step = [1, 2, 5, 10].map((times) => times * unit).find((size) => size >= raw) ?? unit
  for (let tick = Math.ceil(least / step) * step; tick <= most + step / 1e6; tick += step)
    ticks.push(tick)
  return ticks
}

type Scale = (value: number) => number

function scaleOf(
  least: number,
  most: number,
  from: number,
  to: number,
  logarithmic = false,
): Scale {
  const place = logarithmic ? Math.log10 : (value: number) => value
  const [low, high] = [place(least), place(most)]
  const span = high - low || 1
  return (value) => from + ((place(Math.max(least, value)) - low) / span) * (to - from)
}

function frame(body: string, label: string): string {
  return (
    `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${escapeHtml(label)}">` +
    `${body}</svg>`
  )
}

function axes(
  ticks: { x: readonly (readonly [number, string])[]; y: readonly number[] },
  x: Scale,
  y: Scale,
  names: { x: string; y: string },
): string {
  const horizontal = ticks.y.map(
    (tick) =>
      `<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y(tick).toFixed(1)}" y2="${y(tick).toFixed(1)}"/>` +
      `<text x="${LEFT - 6}" y="${(y(tick) + 4).toFixed(1)}" text-anchor="end">${short(tick)}</text>`,
  )
  const vertical = ticks.x.map(
    ([at, text]) =>
      `<text x="${x(at).toFixed(1)}" y="${HEIGHT - BOTTOM + 16}" text-anchor="middle">${escapeHtml(text)}</text>`,
  )
  return (
    horizontal.join('') +
    vertical.join('') +
    `<text class="name" x="${LEFT}" y="${TOP - 3}" text-anchor="start">${escapeHtml(names.y)}</text>` +
    `<text class="name" x="${WIDTH - RIGHT}" y="${HEIGHT - 2}" text-anchor="end">${escapeHtml(names.x)}</text>`
  )
}

function legend(names: readonly string[]): string {
  const entries = names.map(
    (name, at) =>
      `<span><i style="background:${COLOURS[at % COLOURS.length]}"></i>${escapeHtml(name)}</span>`,
  )
  return `<p class="legend">${entries.join('')}</p>`
}

function linePlot(plot: Plot): string {
  const all = plot.series.flatMap(({ points }) => points)
  if (all.length === 0) return '<p>Nothing was measured.</p>'
  const logarithmic = plot.logarithmic === true
  const ys = all.map(([, y]) => y).filter((y) => Number.isFinite(y) && (!logarithmic || y > 0))
  const xs = all.map(([x]) => x)
  const [xMin, xMax] = [Math.min(...xs), Math.max(...xs)]
  const most = Math.max(...ys, logarithmic ? 0.1 : 1e-9)
  const yMax = logarithmic ? 10 ** Math.ceil(Math.log10(most)) : most * 1.05
  const least = Math.max(0.01, Math.min(most, ...ys))
  const yMin = logarithmic ? 10 ** Math.floor(Math.log10(least)) : 0
  const x = scaleOf(xMin, xMax, LEFT, WIDTH - RIGHT)
  const y = scaleOf(yMin, yMax, HEIGHT - BOTTOM, TOP, logarithmic)
  const xTicks =
    plot.xLabels ?? ticksOf(xMin, xMax, false).map((tick) => [tick, short(tick)] as const)
  const lines = plot.series.map(({ points }, at) => {
    const path = points.map(([px, py]) => `${x(px).toFixed(1)},${y(py).toFixed(1)}`).join(' ')
    return `<polyline points="${path}" stroke="${COLOURS[at % COLOURS.length]}"/>`
  })
  const ticks = { x: xTicks, y: ticksOf(yMin, yMax, logarithmic) }
  const names = { x: plot.xName, y: plot.yName }
  return (
    frame(axes(ticks, x, y, names) + lines.join(''), plot.yName) +
    legend(plot.series.map(({ name }) => name))
  )
}

/** Draws bars whose parts are stacked. */
function stackPlot(
  columns: readonly { readonly at: number; readonly parts: readonly number[] }[],
  names: readonly string[],
  yName: string,
  xName: string,
): string {
  if (columns.length === 0) return '<p>Nothing was measured.</p>'
  const sums = columns.map(({ parts }) => parts.reduce((sum, part) => sum + part, 0))
  const yMax = Math.max(...sums, 1e-9) * 1.05
  const xMax = Math.max(...columns.map(({ at }) => at))
  const width = Math.max(1, ((WIDTH - LEFT - RIGHT) / columns.length) * 0.9)
  const x = scaleOf(0, xMax, LEFT, WIDTH - RIGHT)
  const y = scaleOf(0, yMax, HEIGHT - BOTTOM, TOP)
  const bars = columns.flatMap(({ at, parts }) => {
    let below = 0
    // A bar ends at the time of its sample, and never begins left of the axis.
    const left = Math.max(LEFT, x(at) - width)
    const own = Math.max(1, x(at) - left)
    return parts.map((part, index) => {
      const from = y(below)
      below += part
      const height = from - y(below)
      if (height <= 0) return ''
      return (
        `<rect x="${left.toFixed(1)}" y="${y(below).toFixed(1)}" width="${own.toFixed(1)}" ` +
        `height="${height.toFixed(2)}" fill="${COLOURS[index % COLOURS.length]}"/>`
      )
    })
  })
  const ticks = {
    x: ticksOf(0, xMax, false).map((tick) => [tick, short(tick)] as const),
    y: ticksOf(0, yMax, false),
  }
  return frame(axes(ticks, x, y, { x: xName, y: yName }) + bars.join(''), yName) + legend(names)
}

/**
 * Wraps content that may be too wide for a phone. The wrapper scrolls separately from the page, and a keyboard can
 * focus it.
 */
function wide(inner: string): string {
  return `<div class="wide" tabindex="0" role="region" aria-label="table">${inner}</div>`
}

/** Returns a table. `words` is true if the last column is text that may break anywhere. */
function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  words = false,
): string {
  const cells = (tag: string, row: readonly string[]): string =>
    `<tr>${row.map((cell) => `<${tag}>${escapeHtml(cell)}</${tag}>`).join('')}</tr>`
  const first = head.length === 0 ? '' : cells('th', head)
  return wide(
    `<table${words ? ' class="words"' : ''}>${first}${rows.map((row) => cells('td', row)).join('')}</table>`,
  )
}

const SHARES = [0, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999]

/**
 * Draws latency percentiles on a logarithmic scale: the distance from 99 % to 99.9 % is the same as from 90 % to 99 %.
 */
function distribution(report: LoadReport): string {
  const place = (share: number): number => -Math.log10(1 - share)
  const series = report.kinds
    .filter(({ latency }) => latency.count > 0)
    .map(({ kind, latency }) => {
      const histogram = Histogram.from(latency)
      const shares = SHARES.filter((share) => share === 0 || (1 - share) * latency.count >= 1)
      return {
        name: kind,
        points: shares.map((share) => [place(share), histogram.quantileMs(share)] as const),
      }
    })
  const xLabels = [0, 0.5, 0.9, 0.99, 0.999, 0.9999].map(
    (share) => [place(share), `${(share * 100).toFixed(2).replace(/\.?0+$/, '')} %`] as const,
  )
  const reached = Math.max(...series.flatMap(({ points }) => points.map(([x]) => x)))
  return linePlot({
    series,
    yName: 'latency in ms, from the intended time',
    xName: 'share of the answers',
    logarithmic: true,
    xLabels: xLabels.filter(([x]) => x <= reached + 0.01),
  })
}

function latencyCells(latency: HistogramJson): string[] {
  const histogram = Histogram.from(latency)
  const at = (q: number): string => short(histogram.quantileMs(q))
  return [at(0.5), at(0.9), at(0.99), at(0.999), short(histogram.maxMs)]
}

export function reportHtml(report: LoadReport): string {
  const { options, rate, server, tester, stream, seconds } = report
  const over = (name: string, value: (second: (typeof seconds)[number]) => number): Series => ({
    name,
    points: seconds.map((second) => [second.second, value(second)]),
  })
  const state = report.passed ? 'passed' : 'failed'
  const facts: [string, string][] = [
    ['exchange', options.url],
    ['profile', `${options.profile}, seed ${options.seed}`],
    [
      'plan',
      `${short(options.rate)} per second for ${short(options.seconds)} s, ${report.marketsUsed} markets, ` +
        `${options.traders} traders, ${options.sockets} sockets, ${options.connections} connections`,
    ],
    [
      'rate',
      `${short(rate.answered)} of ${short(rate.planned)} per second answered in time` +
        (rate.held ? '' : ': the rate could not be held'),
    ],
    [
      'server',
      `${short(server.cpuMsPerWrite)} ms of CPU per write, ${short(server.cpuSeconds)} s in all; memory ` +
        `${short(server.residentBytesBefore / 2 ** 20)} MiB before, ${short(server.residentBytesAfter / 2 ** 20)} MiB after`,
    ],
    [
      'stream',
      `${short(stream.messages)} messages, ${stream.lags} losses that were told of, ${stream.closed} sockets ` +
        `closed; lag p50 ${short(Histogram.from(stream.lag).quantileMs(0.5))} ms, ` +
        `p99 ${short(Histogram.from(stream.lag).quantileMs(0.99))} ms`,
    ],
    [
      'tester',
      `${tester.saturated ? 'saturated: its figures are partly its own' : 'not saturated'}; sent late by ` +
        `p99 ${short(Histogram.from(tester.lateness).quantileMs(0.99))} ms, busy at most ` +
        `${short(tester.busyMax * 100)} %, signed ${short(tester.signedPerSecond)} orders/s`,
    ],
    ['funds', report.funds],
    ['machine', `${report.machine}${report.commit === '' ? '' : `, commit ${report.commit}`}`],
  ]
  const codes = [...new Set(report.kinds.flatMap(({ errors }) => Object.keys(errors)))].sort()
  const stages = STAGES.filter((stage) => server.stages.some((each) => each.stage === stage))
  const sections = [
    ['Truth', truthTable(report)],
    [
      'Latency',
      table(
        ['', 'planned', 'answered', 'fine', 'p50 ms', 'p90', 'p99', 'p99.9', 'max'],
        report.kinds.map(({ kind, planned, answered, fine, latency }) => [
          kind,
          ...[planned, answered, fine].map(String),
          ...latencyCells(latency),
        ]),
      ),
    ],
    [
      'Throughput over time',
      linePlot({
        series: [over('due', ({ due }) => due), over('answered', ({ answered }) => answered)],
        yName: 'per second',
        xName: 'seconds',
      }),
    ],
    [
      'Latency over time',
      linePlot({
        series: [
          over('p50', ({ p50Ms }) => p50Ms),
          over('p99', ({ p99Ms }) => p99Ms),
          over('stream lag p99', ({ streamP99Ms }) => streamP99Ms),
        ],
        yName: 'ms',
        xName: 'seconds',
        logarithmic: true,
      }),
    ],
    ['Latency distribution', distribution(report)],
    [
      'Errors',
      codes.length === 0
        ? '<p>None.</p>'
        : table(
            ['', ...codes],
            report.kinds.map(({ kind, errors }) => [
              kind,
              ...codes.map((code) => String(errors[code] ?? 0)),
            ]),
          ) +
          linePlot({
            series: [over('errors', ({ errors }) => errors)],
            yName: 'errors per second',
            xName: 'seconds',
          }),
    ],
    [
      'Where a write spends its time, by the exchange itself',
      stages.length === 0
        ? '<p>The exchange does not say.</p>'
        : table(
            ['stage', 'writes', 'mean ms', 'p50', 'p99'],
            server.stages.map(({ stage, count, meanMs, p50Ms, p99Ms }) => [
              stage,
              String(count),
              ...[meanMs, p50Ms, p99Ms].map(short),
            ]),
          ) +
          stackPlot(
            server.samples.map(({ second, stages: sampled }) => ({
              at: second,
              parts: stages.map(
                (stage) => sampled.find((each) => each.stage === stage)?.meanMs ?? 0,
              ),
            })),
            stages,
            'mean ms of a write, by stage',
            'seconds',
          ),
    ],
    [
      'Load on the machine',
      linePlot({
        series: [
          over('cores of the exchange', ({ serverCores }) => serverCores),
          over('busiest thread of the tester', ({ testerBusy }) => testerBusy),
        ],
        yName: 'cores',
        xName: 'seconds',
      }),
    ],
    [
      'Waiting',
      linePlot({
        series: [over('due and not answered', ({ waiting }) => waiting)],
        yName: 'requests',
        xName: 'seconds',
      }),
    ],
  ].map(([title, body]) => `<section><h2>${title}</h2>${body}</section>`)
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Load test: ${escapeHtml(options.profile)}, ${state}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>${STYLE}</style></head><body>
<h1>Load test <em>${escapeHtml(options.profile)}</em> <b class="${state}">${state}</b></h1>
<p>${escapeHtml(report.startedAt)}${report.ended === '' ? '' : ` · ended early: ${escapeHtml(report.ended)}`}</p>
${table([], facts, true)}
${sections.join('\n')}
</body></html>
`
}

function truthTable({ truth }: LoadReport): string {
  if (truth.length === 0) return '<p>Nothing was compared.</p>'
  const rows = truth.map(
    ({ name, ok, detail, skipped }) =>
      `<tr><td class="${skipped ? 'skipped' : ok ? 'passed' : 'failed'}">${skipped ? 'not checked' : ok ? 'true' : 'wrong'}</td>` +
      `<td>${escapeHtml(name)}</td><td>${escapeHtml(detail)}</td></tr>`,
  )
  return wide(`<table class="words">${rows.join('')}</table>`)
}

const STYLE = `
:root{color-scheme:light dark;--line:#8884;--quiet:#5b616b;--good:#15803d;--bad:#b91c1c;--text:#1c1f24;--page:#fff}
@media(prefers-color-scheme:dark){:root{--quiet:#a2a9b4;--good:#4ade80;--bad:#f87171;--text:#e6e8eb;--page:#14171c}}
body{font:15px/1.5 system-ui,sans-serif;max-width:920px;margin:2rem auto;padding:0 1rem;color:var(--text);background:var(--page)}
h1 em{font-style:normal;color:var(--quiet)}h1 b{font-size:.6em;padding:.2em .6em;border-radius:.4em;color:#fff}
b.passed{background:#15803d}b.failed{background:#b91c1c}td.passed{color:var(--good)}td.failed{color:var(--bad);font-weight:bold}td.skipped{color:var(--quiet)}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{border-bottom:1px solid var(--line);padding:.25rem .6rem;text-align:left;vertical-align:top}
h1,p,.words td:last-child{overflow-wrap:anywhere}
section{margin-top:2rem}svg{width:100%;height:auto;display:block;overflow:visible}
svg text{font-size:11px;fill:var(--quiet)}svg text.name{font-size:12px}
svg polyline{fill:none;stroke-width:1.6}svg .grid{stroke:var(--line)}
@media(max-width:640px){svg text,svg text.name{font-size:20px}}
.legend{margin:.2rem 0 0;font-size:13px}.legend span{margin-right:1.2em;display:inline-block}
.legend i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.4em}`
