/** What a person reads when the exchange is up: what runs, where, and what to try next. */

import type { Settings } from '#config/settings.ts'
import { describeDatabaseUrl } from '#store/database-url.ts'

export function banner(run: {
  readonly settings: Settings
  readonly version: string
  readonly url: string
  readonly databaseUrl: string
  readonly cores: number
  /** Which implementations recover the signers of orders. */
  readonly signatures: string
}): string {
  const { settings, version, url } = run
  const { front, markets, verify, database } = settings
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
    `  signatures ${run.signatures}`,
    `  writes     ${settings.auth.bearer ? 'need a bearer token' : 'are open to everybody'}`,
    '',
    '  Try it:',
    `    curl ${url}/api/v1/markets`,
    `    curl ${url}/readyz`,
    `    open ${url}/docs in a browser`,
    '',
    '  Ctrl-C stops it; nothing that was answered is lost.',
    '',
  ]
  return `${lines.join('\n')}\n`
}
