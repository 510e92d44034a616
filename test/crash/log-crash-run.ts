/** `npm run crash -- log --kills 100 --nodes 3 --seed 7`: writers compete for a log whose servers are killed. */

import { parseArgs } from 'node:util'
import { missingServers } from '#devnet/cluster/database-servers.ts'
import { raceForLog } from './log-crash.ts'

const { values } = parseArgs({
  options: {
    kills: { type: 'string', default: '30' },
    nodes: { type: 'string', default: '3' },
    seed: { type: 'string' },
  },
})
const nodes = Number(values.nodes)
const missing = missingServers(nodes)
if (missing !== undefined) {
  process.stderr.write(`it cannot run here: ${missing}\n`)
  process.exit(2)
}
const seed = Number(values.seed ?? Date.now() % 1_000_000)
process.stdout.write(`seed ${seed}, ${nodes === 1 ? 'one server' : `a cluster of ${nodes}`}\n`)
const report = await raceForLog({
  ...{ kills: Number(values.kills), nodes, seed },
  onKill: ({ kills, acknowledged }, what) =>
    process.stdout.write(`${kills}: ${what}, ${acknowledged} acknowledged\n`),
})
process.stdout.write(`${JSON.stringify(report)}\n`)
if (report.lost + report.doubled + report.misplaced > 0) process.exitCode = 1
