/** `npm run crash -- cluster --kills 100 --seed 7`: what a cluster does when its nodes die, with figures. */

import { parseArgs } from 'node:util'
import { crashCluster, EVENTS, type Event } from './cluster-crash.ts'

const { values } = parseArgs({
  options: {
    kills: { type: 'string', default: '30' },
    seed: { type: 'string' },
    /** Which events, separated by commas; all if it is not given. */
    events: { type: 'string', default: EVENTS.join() },
  },
})
const seed = Number(values.seed ?? Date.now() % 1_000_000)
process.stdout.write(`seed ${seed}\n`)

const report = await crashCluster({
  rounds: Number(values.kills),
  seed,
  events: values.events.split(',') as Event[],
  onRound: (round, event, { servedMs, accepted, unanswered }) => {
    const lastMs = Math.round(servedMs.get(event)?.at(-1) ?? 0)
    process.stdout.write(
      `${round} ${event}: served again after ${lastMs} ms, ${accepted} accepted, ${unanswered} unanswered\n`,
    )
  },
})

const { stream } = report
const lines = [...report.servedMs].map(([event, times]) => {
  const sorted = times.toSorted((a, b) => a - b)
  const at = (share: number) => Math.round(sorted[Math.floor((sorted.length - 1) * share)] ?? 0)
  return `served after ${event.padEnd(14)} ${times.length} times: p50 ${at(0.5)} ms, max ${at(1)} ms`
})
process.stdout.write(
  [
    '',
    `events                      ${report.kills}`,
    `accepted, all still there   ${report.accepted}`,
    `unanswered, all placed once ${report.unanswered} (${report.unansweredButIn} had been placed)`,
    `of them refused for sure    ${report.refused}`,
    `trades, shares conserved    ${report.trades}`,
    `a reader of the stream      ${stream.deltas} messages, ${stream.resets} told new starts, ${stream.gaps} gaps, ${stream.checksums} wrong`,
    ...lines,
    '',
  ].join('\n'),
)
