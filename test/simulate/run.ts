/**
 * `npm run simulate -- [--seed 1] [--minutes 3] [--seeds 100] [--nodes 3] [--until-failure] [--soak] [--trace]`: runs
 * one simulation per seed, beginning with the given seed. After a violation it prints the seed, the faults that are
 * necessary for the violation, and the end of the trace.
 */

import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { endWithHelp } from '../support/help.ts'
import { runMutants } from './mutants.ts'
import { shrink } from './shrink.ts'
import { type SimulationOptions, type SimulationResult, simulate } from './simulation.ts'

endWithHelp(`Runs market threads, projection, settlement and accounts on virtual time, with faults drawn from a seed.

  npm run simulate -- --seed 1 --minutes 3   one seed; also --trace, --no-shrink
  npm run simulate -- --seeds 100            this many seeds, from --seed on
  npm run simulate -- --nodes 3              this many nodes that take the markets from each other
  npm run simulate -- --services             only the real services; --no-services: only stand-ins
  npm run simulate -- --kind server --funds  the log in a server (or files), and funds that are reserved
  npm run simulate -- --cluster              the directory of nodes instead of an exchange
  npm run simulate -- --mutants permit       finds mistakes with this word in their name; without a word, all
  npm run simulate -- --chain                the services that work for the chain, such as quick markets
  npm run simulate -- --until-failure        seeds until one violates an invariant; also --seconds of processor time
  npm run simulate -- --soak                 new seeds of an hour each, until it is stopped; goes on after a violation
`)

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seed: { type: 'string' },
    minutes: { type: 'string' },
    seeds: { type: 'string', default: '1' },
    nodes: { type: 'string' },
    services: { type: 'boolean' },
    kind: { type: 'string' },
    funds: { type: 'boolean' },
    cluster: { type: 'boolean', default: false },
    mutants: { type: 'boolean', default: false },
    chain: { type: 'boolean', default: false },
    'until-failure': { type: 'boolean', default: false },
    soak: { type: 'boolean', default: false },
    /** Maximum CPU time in seconds. After it is used up, no further seed is started. */
    seconds: { type: 'string', default: 'Infinity' },
    trace: { type: 'boolean', default: false },
    shrink: { type: 'boolean', default: true },
  },
  allowNegative: true,
})
if (values.mutants) {
  const seconds = Math.min(600, Number(values.seconds))
  process.exit((await runMutants(positionals.join(' '), seconds)) === 0 ? 0 : 1)
}
const isEndless = values.soak || values['until-failure']
const first = Number(values.seed ?? (values.soak ? randomInt(2 ** 31) : 1))
const minutes = Number(values.minutes ?? (values.soak ? 60 : 3))
const seeds = isEndless ? Number.POSITIVE_INFINITY : Number(values.seeds)
const more: Omit<SimulationOptions, 'seed'> = {
  minutes,
  ...(values.nodes === undefined ? {} : { nodes: Number(values.nodes) }),
  ...(values.kind === undefined ? {} : { kind: values.kind as 'files' | 'server' }),
  ...(values.funds === undefined ? {} : { funds: values.funds }),
  ...(values.cluster ? { cluster: true } : {}),
  ...(values.services === undefined ? {} : { services: values.services }),
  ...(values.chain ? { scenario: 'chain' } : {}),
  ...(values.trace ? { print: (line: string) => console.log(line) } : {}),
}

const cpuSeconds = () => process.cpuUsage().user / 1e6
const total = { seeds: 0, virtual: 0, acts: 0, faults: 0, events: 0, answers: 0, failures: 0 }
for (let seed = first; seed < first + seeds && cpuSeconds() < Number(values.seconds); seed++) {
  const result = await simulate({ seed, ...more })
  count(result)
  if (values.soak) tellTotal()
  if (result.violation === undefined) continue
  total.failures++
  await tell(result)
  if (values['until-failure']) break
}
tellTotal()
process.exitCode = total.failures === 0 ? 0 : 1

function count({ virtualSeconds, acts, faults, counts }: SimulationResult): void {
  total.seeds++
  total.virtual += virtualSeconds
  total.acts += acts
  total.faults += faults.length
  total.events += counts.events
  const { accepted, refused, cancelled, unknown, views } = counts
  total.answers += accepted + refused + cancelled + unknown + views
}

function tellTotal(): void {
  const spent = cpuSeconds()
  console.log(
    `${total.seeds} seeds, ${(total.virtual / 60).toFixed(0)} virtual minutes in ${spent.toFixed(1)} s of processor ` +
      `time; ${total.faults} faults, ${total.events} events, ${total.answers} answers checked, ` +
      `${total.acts} acts; ${total.failures} violations`,
  )
}

async function tell(result: SimulationResult): Promise<void> {
  const { seed, violation, trace } = result
  console.log(`seed ${seed}: ${violation?.message}`)
  const { print: _, ...quietly } = more
  const shrunk = values.shrink ? await shrink(result, { seed, ...quietly }) : result
  console.log(`necessary faults: ${shrunk.faults.join(' ') || 'none'}`)
  const { nodes, kind, services, funds } = values
  const same = [
    ...(nodes === undefined ? [] : [` --nodes ${nodes}`]),
    ...(kind === undefined ? [] : [` --kind ${kind}`]),
    ...(services === undefined ? [] : [services ? ' --services' : ' --no-services']),
    ...(funds === undefined ? [] : [funds ? ' --funds' : ' --no-funds']),
    ...(values.cluster ? [' --cluster'] : []),
    ...(values.chain ? [' --chain'] : []),
  ].join('')
  console.log(`again: npm run simulate -- --seed ${seed} --minutes ${minutes}${same} --trace`)
  for (const line of (shrunk.violation === undefined ? trace : shrunk.trace).lines.slice(-60)) {
    console.log(`  ${line}`)
  }
}
