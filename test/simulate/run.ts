/**
 * `npm run simulate -- [--seed 1] [--minutes 3] [--seeds 100] [--until-failure] [--trace]`: simulates seeds from the
 * given one on. After a violation it prints the seed, the faults that are necessary for it, and the end of the trace.
 */

import { parseArgs } from 'node:util'
import { endWithHelp } from '../support/help.ts'
import { shrink } from './shrink.ts'
import { type SimulationResult, simulate } from './simulation.ts'

endWithHelp(`Runs market threads on virtual time, with faults drawn from a seed.

  npm run simulate -- --seed 1 --minutes 3   one seed; also --trace, --no-shrink
  npm run simulate -- --seeds 100            this many seeds, from --seed on
  npm run simulate -- --until-failure        seeds until one violates an invariant; also --seconds of processor time
`)

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    minutes: { type: 'string', default: '3' },
    seeds: { type: 'string', default: '1' },
    'until-failure': { type: 'boolean', default: false },
    /** Seconds of processor time after which no further seed is begun. */
    seconds: { type: 'string', default: 'Infinity' },
    trace: { type: 'boolean', default: false },
    shrink: { type: 'boolean', default: true },
  },
  allowNegative: true,
})
const first = Number(values.seed)
const minutes = Number(values.minutes)
const seeds = values['until-failure'] ? Number.POSITIVE_INFINITY : Number(values.seeds)
const print = values.trace ? (line: string) => console.log(line) : undefined

const cpuSeconds = () => process.cpuUsage().user / 1e6
const total = { seeds: 0, virtual: 0, acts: 0, faults: 0, events: 0, answers: 0, failures: 0 }
for (let seed = first; seed < first + seeds && cpuSeconds() < Number(values.seconds); seed++) {
  const result = await simulate({ seed, minutes, ...(print === undefined ? {} : { print }) })
  total.seeds++
  total.virtual += result.virtualSeconds
  total.acts += result.acts
  total.faults += result.faults.length
  total.events += result.counts.events
  const { accepted, refused, cancelled, unknown, views } = result.counts
  total.answers += accepted + refused + cancelled + unknown + views
  if (result.violation === undefined) continue
  total.failures++
  await tell(result)
  if (values['until-failure']) break
}
const spent = cpuSeconds()
console.log(
  `${total.seeds} seeds, ${(total.virtual / 60).toFixed(0)} virtual minutes in ${spent.toFixed(1)} s of processor ` +
    `time; ${total.faults} faults, ${total.events} events, ${total.answers} answers checked, ` +
    `${total.acts} acts; ${total.failures} violations`,
)
process.exitCode = total.failures === 0 ? 0 : 1

async function tell(result: SimulationResult): Promise<void> {
  const { seed, violation, trace } = result
  console.log(`seed ${seed}: ${violation?.message}`)
  const shrunk = values.shrink ? await shrink(result, { seed, minutes }) : result
  console.log(`necessary faults: ${shrunk.faults.join(' ') || 'none'}`)
  console.log(`again: npm run simulate -- --seed ${seed} --minutes ${minutes} --trace`)
  for (const line of (shrunk.violation === undefined ? trace : shrunk.trace).lines.slice(-60)) {
    console.log(`  ${line}`)
  }
}
