/** `npm run crash -- http --kills 30 --seed 7`: kills an exchange `--kills` times, and prints figures. */

import { parseArgs } from 'node:util'
import { crashOverHttp } from './http-crash.ts'

const { values } = parseArgs({
  options: { kills: { type: 'string', default: '30' }, seed: { type: 'string' } },
})
const seed = Number(values.seed ?? Date.now() % 1_000_000)
process.stdout.write(`seed ${seed}\n`)

const report = await crashOverHttp({
  kills: Number(values.kills),
  seed,
  onRound: (round, { accepted, unanswered, recoveriesMs }) => {
    const lastMs = Math.round(recoveriesMs.at(-1) ?? 0)
    process.stdout.write(
      `kill ${round}: ready after ${lastMs} ms, ${accepted} accepted, ${unanswered} unanswered\n`,
    )
  },
})

const sorted = report.recoveriesMs.toSorted((a, b) => a - b)
const at = (share: number) => Math.round(sorted[Math.floor((sorted.length - 1) * share)] ?? 0)
process.stdout.write(
  [
    '',
    `kills                       ${report.kills}`,
    `accepted, all still there   ${report.accepted}`,
    `unanswered, all placed once ${report.unanswered} (${report.unansweredButIn} had been placed)`,
    `cancelled, none came back   ${report.cancelled} (${report.cancelsUnanswered} unanswered)`,
    `trades, shares conserved    ${report.trades}`,
    `until ready again           p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, max ${at(1)} ms`,
    '',
  ].join('\n'),
)
