import { test } from 'node:test'
import { randomFrom, withSeeds } from '../../support/random.ts'
import { sampleOf, WHOLE } from '../../support/sample.ts'
import { type Counts, world } from './model-world.ts'

/** Number of runs, each with its own seed, and number of operations per run. */
const RUNS = sampleOf(60, 60)
const OPERATIONS = 2_000

function seeds(): number[] {
  const first = WHOLE ? 1 : Math.floor(Math.random() * 1_000_000)
  return Array.from({ length: RUNS }, (_, index) => first + index)
}

function run(honest: boolean): Counts {
  const sum: Partial<Counts> = {}
  withSeeds(seeds(), (random) => {
    const { step, counts } = world(randomFrom(random.seed), { honest })
    for (let index = 0; index < OPERATIONS; index++) step()
    for (const [what, count] of Object.entries(counts)) {
      const name = what as keyof Counts
      sum[name] = (sum[name] ?? 0) + count
    }
  })
  return sum as Counts
}

test('after random commands, reserved funds equal a model’s, and no order is refused or cancelled without need', (t) => {
  t.diagnostic(JSON.stringify(run(false)))
})

test('if traders move no funds, every accepted order stays open and every trade settles', (t) => {
  t.diagnostic(JSON.stringify(run(true)))
})
