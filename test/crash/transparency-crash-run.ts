/**
 * `npm run crash -- transparency --kills 50 [--seed 7]`: kills an exchange while a witness follows its public log. With
 * `--takeovers`, and the URLs of two new databases, a second node runs and takes over after each kill.
 */

import { parseArgs } from 'node:util'
import { sharedBy } from '../support/cluster.ts'
import { openNats } from '../support/nats.ts'
import { crashTakeovers, crashUnderWitness } from './transparency-crash.ts'

const { values } = parseArgs({
  options: {
    kills: { type: 'string', default: '50' },
    seed: { type: 'string' },
    takeovers: { type: 'boolean', default: false },
    /** URLs of two new databases, for the log and for the data of both nodes. */
    log: { type: 'string', default: '' },
    database: { type: 'string', default: '' },
  },
})
const seed = Number(values.seed ?? Date.now() % 1_000_000)
const kills = Number(values.kills)
process.stdout.write(`seed ${seed}\n`)

const onRound = (report: { kills: number; accepted: number; cosigned: number }): void => {
  const { accepted, cosigned } = report
  process.stdout.write(
    `kill ${report.kills}: ${accepted} accepted, ${cosigned} checkpoints cosigned\n`,
  )
}

async function takeovers() {
  if (values.log === '' || values.database === '') {
    throw new Error('--takeovers needs --log and --database, each mysql://…')
  }
  const nats = await openNats()
  try {
    const shared = {
      ...sharedBy(nats, values.log, values.database),
      SIBYL_CLUSTER_SILENCE_MS: '1500',
    }
    return await crashTakeovers({ kills, seed, shared, onRound })
  } finally {
    await nats.dispose()
  }
}

const report = values.takeovers
  ? await takeovers()
  : await crashUnderWitness({ kills, seed, environments: [{}], onRound })
process.stdout.write(
  `${report.kills} kills, ${report.accepted} orders accepted and proven, ${report.cosigned} checkpoints ` +
    `cosigned, none refused, ${report.signed} signed ones all a start of the log; ${report.entries} entries verified and replayed\n`,
)
