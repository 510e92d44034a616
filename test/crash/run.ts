/**
 * `npm run crash -- --kills 1000 [--seed 1]`: kills the exchange so many times and prints what was
 * answered, lost and duplicated. Exits with 1 when anything was.
 */

import { parseArgs } from 'node:util'
import { type CrashFigures, crashRun } from './crash-run.ts'

const { values } = parseArgs({
  options: {
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
