/**
 * `npm run crash -- settlement --kills 200 --seed 7`: kills an exchange `--kills` times while it settles, and
 * prints figures.
 */

import { parseArgs } from 'node:util'
import { crashSettlement, randomKills } from './settlement-crash.ts'

const { values } = parseArgs({
  options: { kills: { type: 'string', default: '50' }, seed: { type: 'string' } },
})
const seed = Number(values.seed ?? Date.now() % 1_000_000)
process.stdout.write(`seed ${seed}\n`)

const report = await crashSettlement({
  points: randomKills(Number(values.kills), seed),
  seed,
  onRound(point, { kills, underWay, answered }) {
    const where =
      point === undefined ? 'at any time' : `${point.after ? 'after' : 'before'} ${point.method}`
    process.stdout.write(
      `kill ${kills}, ${where}: ${answered} trades told, ${underWay} kills found a transaction open\n`,
    )
  },
})
process.stdout.write(
  [
    '',
    `kills                               ${report.kills}`,
    `that came at their instant          ${report.inTime}`,
    `that found a transaction open       ${report.underWay}`,
    `trades                              ${report.trades} (${report.answered} told before a kill)`,
    `settled once                        ${report.confirmed}`,
    `failed, and not settled             ${report.failed}`,
    'settled twice 0, forgotten 0; every trader holds on chain what their trades say',
    `transactions of the settlement key  ${report.transactions}`,
    '',
  ].join('\n'),
)
