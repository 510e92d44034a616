/** `npm run crash -- transparency --kills 100 --seed 7`: kills under a witness, as many as one likes. */

import { parseArgs } from 'node:util'
import { crashUnderWitness } from './transparency-crash.ts'

const { values } = parseArgs({
  options: {
    kills: { type: 'string', default: '100' },
    seed: { type: 'string' },
    /** Two nodes that take over from each other: their log and their database on a server. */
    log: { type: 'string' },
    database: { type: 'string' },
  },
})
const seed = Number(values.seed ?? Date.now() % 1_000_000)
process.stdout.write(`seed ${seed}\n`)
const { log, database } = values
const shared =
  log === undefined || database === undefined
    ? undefined
    : { SIBYL_LOG_URL: log, SIBYL_DATABASE_URL: database }

const report = await crashUnderWitness({
  ...{ kills: Number(values.kills), seed },
  environments: shared === undefined ? [{}] : [shared, shared],
  onRound: ({ kills, accepted, cosigned }) => {
    process.stdout.write(`kill ${kills}: ${accepted} accepted, ${cosigned} checkpoints cosigned\n`)
  },
})
process.stdout.write(
  `${report.kills} kills, ${report.accepted} orders accepted and proven, ${report.cosigned} checkpoints ` +
    `cosigned, none refused, ${report.signed} signed ones all a start of the log; ${report.entries} entries verified and replayed\n`,
)
