/**
 * `npm run crash -- exchange --kills 1000 [--seed 1]`: kills the exchange `--kills` times and prints the
 * answered, lost and duplicated orders. Exits with 1 if any was lost or duplicated.
 *
 * `npm run crash -- resolution`: takes a market from its creation to its resolution, and kills the exchange
 * after every step.
 */

import { parseArgs } from 'node:util'
import { environmentOn, fundBonds, liveAndEnd, STEPS } from '../scenario/resolution-life.ts'
import { openTestChain } from '../support/chain.ts'
import { openExchange } from '../support/exchange.ts'
import { type CrashFigures, crashRun } from './crash-run.ts'

const { values } = parseArgs({
  options: {
    resolution: { type: 'boolean', default: false },
    kills: { type: 'string', default: '100' },
    seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 31)) },
  },
})
const kills = Number(values.kills)
const seed = Number(values.seed)

function line({ kills, answered, lost, duplicated, ...more }: CrashFigures): string {
  const starts = `${more.killedWhileStarting} of them while starting`
  const states = `${more.sameStates} states the same as before`
  return `kills ${kills} (${starts}), answered ${answered}, lost ${lost}, duplicated ${duplicated}, ${states}`
}

if (values.resolution) await killAfterEveryStep()
else await killAgainAndAgain()

async function killAfterEveryStep(): Promise<void> {
  const chain = await openTestChain()
  try {
    await fundBonds(chain)
    const environment = environmentOn(chain)
    const exchange = await openExchange({ environment })
    try {
      await liveAndEnd({ chain, exchange, environment }, STEPS)
      await exchange.stop()
    } catch (error) {
      process.stderr.write(`the exchange wrote:\n${exchange.output()}\n`)
      throw error
    } finally {
      await exchange.dispose()
    }
  } finally {
    await chain.close()
  }
  process.stdout.write(`killed after ${STEPS.join(', ')}: every state as it should be\n`)
}

async function killAgainAndAgain(): Promise<void> {
  process.stdout.write(`seed ${seed}\n`)
  const figures = await crashRun({
    kills,
    seed,
    killsPerFolder: 25,
    progress(now) {
      if (now.kills % 25 === 0) process.stdout.write(`${line(now)}\n`)
    },
  })
  process.stdout.write(`${line(figures)}\n`)
  if (figures.lost > 0 || figures.duplicated > 0) process.exitCode = 1
}
