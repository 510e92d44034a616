/** What a person reads when the exchange is up: what runs, where, and what to try next. */

import type { Settings } from '#config/settings.ts'
import { describeDatabaseUrl } from '#store/database-url.ts'

export function banner(run: {
  readonly settings: Settings
  readonly version: string
  readonly port: number
  readonly databaseUrl: string
  readonly cores: number
}): string {
  const { settings, version, port } = run
  const { front, markets, verify, database } = settings
  const host = front.host === '0.0.0.0' || front.host === '::' ? 'localhost' : front.host
  const url = `http://${host.includes(':') ? `[${host}]` : host}:${port}`
  const threads = [
    `${front.threads} front`,
    `${markets.threads} market`,
    '1 store',
    `${front.threads * verify.threads} verify`,
    `${front.threads * database.queryThreads} query`,
  ].join(', ')
  const lines = [
    `${settings.service.name} ${version} is open (${settings.profile}) at ${url}`,
    '',
    `  threads    ${threads}, on ${run.cores} cores`,
    `  data       ${settings.data.dir} (event log in ${markets.partitions} partitions)`,
    `  database   ${describeDatabaseUrl(run.databaseUrl)}`,
    `  writes     ${settings.auth.bearer ? 'need a bearer token' : 'are open to everybody'}`,
    '',
    '  Try it:',
    `    curl ${url}/readyz`,
    `    open ${url}/docs in a browser`,
    '',
    '  Ctrl-C stops it; nothing that was answered is lost.',
    '',
  ]
  return `${lines.join('\n')}\n`
}
