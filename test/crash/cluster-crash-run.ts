/**
 * `npm run crash -- cluster --kills 100 --seed 7 [--galera]`: measures a cluster while its nodes, its servers and the
 * links between them fail. `npm run crash -- rolling`: stops and starts every node, one after the other.
 */

import { parseArgs } from 'node:util'
import { missingServers } from '#devnet/cluster/database-servers.ts'
import { missingNats } from '#devnet/cluster/nats-servers.ts'
import { crashCluster, EVENTS, type Event } from './cluster-crash.ts'

const { values } = parseArgs({
  options: {
    kills: { type: 'string', default: '30' },
    /** Time in minutes after which no further round begins. */
    minutes: { type: 'string', default: '600' },
    seed: { type: 'string' },
    /** Three database servers instead of one. */
    galera: { type: 'boolean', default: false },
    rolling: { type: 'boolean', default: false },
    /** Time in milliseconds after a node's return until market threads move back to it; 0 for never. */
    'rebalance-ms': { type: 'string' },
    /** Silence in milliseconds after which a node counts as dead. Use a higher value on a busy machine. */
    'silence-ms': { type: 'string' },
    /** Events, separated by commas; all by default. */
    events: { type: 'string', default: EVENTS.join() },
  },
})
const missing = missingNats() ?? missingServers(values.galera ? 3 : 1)
if (missing !== undefined) {
  process.stderr.write(`it cannot run here: ${missing}\n`)
  process.exit(2)
}
// If the run is interrupted, all of its processes end, too.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))
const seed = Number(values.seed ?? Date.now() % 1_000_000)
process.stdout.write(`seed ${seed}, ${values.galera ? 'a Galera of three' : 'one MariaDB'}\n`)

const report = await crashCluster({
  ...{ rounds: Number(values.kills), seed, galera: values.galera, rolling: values.rolling },
  // Without `--rolling`, market threads never move by default. The run compares the pauses of unaffected markets before
  // and after a fault, and a move would cause another pause.
  rebalanceMs: Number(values['rebalance-ms'] ?? (values.rolling ? 5_000 : 0)),
  // In a rolling restart, every stop of a node is announced. A silent node is then only slow, so it counts as dead
  // after a longer silence.
  silenceMs: Number(values['silence-ms'] ?? (values.rolling ? 5_000 : 1_000)),
  msMax: Number(values.minutes) * 60_000,
  events: values.events.split(',') as Event[],
  onRound: (round, what, { servedMs, accepted, unanswered }) => {
    const [event = ''] = what.split(' ')
    const lastMs = Math.round(servedMs.get(event as Event)?.at(-1) ?? 0)
    process.stdout.write(
      `${round} ${what}: served again after ${lastMs} ms, ${accepted} accepted, ${unanswered} unanswered\n`,
    )
  },
})

const { stream, settled, witness } = report
const wordsOf = (what: string, times: readonly number[]): string => {
  const sorted = times.toSorted((a, b) => a - b)
  const at = (share: number) => Math.round(sorted[Math.floor((sorted.length - 1) * share)] ?? 0)
  return `${what} ${times.length} times: p50 ${at(0.5)} ms, p90 ${at(0.9)} ms, max ${at(1)} ms`
}
process.stdout.write(
  [
    '',
    `events                      ${report.kills}`,
    `accepted, all still there   ${report.accepted}`,
    `unanswered, all placed once ${report.unanswered} (${report.unansweredButIn} had been placed)`,
    `trades, shares conserved    ${report.trades}`,
    `settled on the chain        ${settled.confirmed} once, ${settled.twice} twice, ${settled.failed} failed`,
    `readers of the stream       ${stream.messages} messages, ${stream.resets} told new starts, ${stream.gaps} gaps seen, ${stream.checksums} wrong, ${stream.reconnects} reconnects`,
    `answers about an order      ${witness.answers} about ${witness.orders} orders, ${witness.unknown} unknown, none wrong`,
    ...[...report.errors].map(
      ([kind, { met, healed, first }]) =>
        `an order met ${kind.padEnd(24)} ${met} times, the other front took it ${healed} times (${first})`,
    ),
    ...[...report.servedMs].map(([event, all]) => wordsOf(`served after ${event.padEnd(14)}`, all)),
    ...[...report.othersMs].map(([event, all]) =>
      wordsOf(`other markets, longest pause ${event.padEnd(6)}`, all),
    ),
    wordsOf('the same by the pace of the load alone', report.calmMs),
    '',
  ].join('\n'),
)
