/**
 * `npm run crash -- start --times 200 --seed 7`: stops a starting exchange `--times` times, and prints
 * figures.
 */

import { parseArgs } from 'node:util'
import { stopAtRandomInstants } from './start-stop.ts'

const { values } = parseArgs({
  options: {
    times: { type: 'string', default: '50' },
    seed: { type: 'string' },
    'within-ms': { type: 'string', default: '15000' },
  },
})
const seed = Number(values.seed ?? Date.now() % 1_000_000)
process.stdout.write(`seed ${seed}\n`)
const report = await stopAtRandomInstants({
  times: Number(values.times),
  seed,
  withinMs: Number(values['within-ms']),
  onRound: ({ stops }, last) => process.stdout.write(`stop ${stops}: ${last}\n`),
})
process.stdout.write(
  [
    '',
    `stops, each clean              ${report.stops}`,
    `  before the program had begun ${report.beforeItBegan}`,
    `  while it started             ${report.whileStarting}`,
    `  when it was open             ${report.whenOpen}`,
    `orders accepted, all found     ${report.orders}`,
    '',
  ].join('\n'),
)
