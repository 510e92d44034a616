/** `npm run crash -- conformance`: runs the tests of the log in a database on a Galera cluster of three. */

import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { missingServers, openDatabaseServers } from '#devnet/cluster/database-servers.ts'

const NODES = 3
const RUNNER = fileURLToPath(new URL('../run.ts', import.meta.url))
const missing = missingServers(NODES)
if (missing !== undefined) {
  process.stderr.write(`it cannot run here: ${missing}\n`)
  process.exit(2)
}
const servers = await openDatabaseServers(NODES)
try {
  const { host } = new URL(servers.urlOf(0))
  const child = spawn(
    process.execPath,
    [...process.execArgv, RUNNER, 'test/log/mysql-log.test.ts', 'test/scenario/mysql-log.test.ts'],
    { stdio: 'inherit', env: { ...process.env, SIBYL_TEST_MYSQL_URL: `mysql://root@${host}` } },
  )
  process.exitCode = await new Promise<number>((resolve) => {
    child.once('exit', (code) => resolve(code ?? 1))
  })
} finally {
  await servers.dispose()
}
