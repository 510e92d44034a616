/**
 * `npm run crash -- relayer --kills 50 --seed 7`: kills an exchange `--kills` times while it relays
 * operations.
 */

import { parseArgs } from 'node:util'
import { closeFragile, crashRelayer, openFragile, randomPoints } from './relayer-crash.ts'

const { values } = parseArgs({
  options: { kills: { type: 'string', default: '50' }, seed: { type: 'string' } },
})
const seed = Number(values.seed ?? Date.now() % 1_000_000)
process.stdout.write(`seed ${seed}\n`)

const fragile = await openFragile()
const report = await crashRelayer(
  fragile,
  randomPoints(Number(values.kills), seed),
  (round, { method, after }) => {
    process.stdout.write(`kill ${round + 1}: ${after ? 'after' : 'before'} ${method}\n`)
  },
).finally(() => closeFragile(fragile))
process.stdout.write(
  [
    '',
    `kills                               ${report.kills}`,
    `operations, each done once          ${report.operations}`,
    `had reached the chain by then       ${report.reached}`,
    `transactions of the relayer's key   ${report.transactions}`,
    '',
  ].join('\n'),
)
