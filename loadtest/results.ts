/** Writes the table of all benchmarks, and the page around it. */

import type { BenchResult } from './bench.ts'

export type BenchRun = {
  /** Name of the benchmark, as in `npm run bench -- <name>`. */
  readonly command: string
  readonly results: readonly BenchResult[]
  /** Other lines of its output. */
  readonly notes: readonly string[]
  /** Reason of the failure; '' if the benchmark finished. */
  readonly failure: string
}

export type ResultsHead = {
  readonly machine: string
  readonly commit: string
  readonly date: string
  readonly quick: boolean
  /** Load average when the benchmark began; almost 0 on an idle machine. */
  readonly loadAverage: number
}

function figure(value: number): string {
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString('en')
  return String(Math.round(value * 1_000) / 1_000)
}

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ')

export function resultsTable(runs: readonly BenchRun[], head: ResultsHead): string {
  const rows = runs.flatMap(({ command, results, failure }) => [
    ...results.map(
      ({ unit, figure: ours, peer, peerFigure, ratio, bar }) =>
        `| \`${command}\` | ${figure(ours)} ${cell(unit)} | ${figure(peerFigure)}: ${cell(peer)} | ` +
        `${figure(ratio)} | ${bar}${ratio >= bar ? '' : ', missed'} |`,
    ),
    ...(failure === '' ? [] : [`| \`${command}\` | ${cell(failure)} | | | |`]),
  ])
  const commit = head.commit === '' ? '' : `, commit ${head.commit}`
  return [
    `${head.machine}${commit}, ${head.date}${head.quick ? ', `--quick`' : ''}; load average ` +
      `${head.loadAverage.toFixed(1)} when it began.`,
    '',
    '| bench | figure | beside, in the same run | ratio | bar |',
    '|---|---|---|---|---|',
    ...rows,
  ].join('\n')
}

export function resultsPage(runs: readonly BenchRun[], head: ResultsHead): string {
  const notes = runs
    .filter((run) => run.notes.length > 0)
    .map((run) => `**\`${run.command}\`**\n\n${run.notes.map((note) => `- ${note}`).join('\n')}`)
  return `# Results

\`npm run bench -- all\` runs every benchmark and writes this page. A figure means something only beside what
was measured in the same run, on the same machine; the ratio of the two is what the bar is about.

${resultsTable(runs, head)}

## What they say besides

${notes.join('\n\n')}
`
}
