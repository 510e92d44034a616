/** Text for the person at the terminal: the running parts, their addresses, and commands to try next. */

import { DEVNET_CHAIN_ID } from '#config/devnet.ts'
import type { Settings } from '#config/settings-schema.ts'
import { reserves } from '#config/thread-data.ts'
import type { Devnet } from '#devnet/open-devnet.ts'
import { PRICE_SOURCES } from '#domain/price-providers.ts'
import { describeMysqlAddress } from '#log/server/mysql-server.ts'
import { describeDatabaseUrl } from '#store/engine/database-url.ts'

export async function banner(run: {
  readonly settings: Settings
  readonly version: string
  readonly url: string
  /** URL for operators: the URL of the admin port, or of the exchange if there is no admin port. */
  readonly adminUrl: string
  readonly databaseUrl: string
  readonly cores: number
  /** Names of the implementations that recover signers and compute Keccak hashes. */
  readonly signatures: string
  /** The local chain, if this run has one. */
  readonly devnet: Devnet | undefined
}): Promise<string> {
  const { settings, version, url } = run
  const { front, markets, verify, database, supervisor } = settings
  const threads = [
    `${front.threads} front`,
    `${markets.threads} market`,
    '1 store',
    ...(reserves(settings) ? [`${settings.risk.threads} accounts`] : []),
    `${front.threads * verify.threads} verify`,
    `${front.threads * database.queryThreads} query`,
  ].join(', ')
  const lines = [
    `${settings.service.name} ${version} is open (${settings.profile}) at ${url}`,
    '',
    `  threads    ${threads}, on ${run.cores} cores`,
    ...(run.devnet !== undefined && run.cores < supervisor.shareBelowCores
      ? ['             one thread for the chain and the prices together']
      : []),
    ...(settings.eventLog.url === ''
      ? [`  data       ${settings.data.dir} (event log in ${markets.partitions} partitions)`]
      : [
          `  log        ${describeMysqlAddress(settings.eventLog.url)} (${markets.partitions} partitions)`,
          `  data       ${settings.data.dir} (a copy of the log)`,
        ]),
    `  database   ${describeDatabaseUrl(run.databaseUrl)}`,
    `  signatures ${run.signatures}`,
    `  funds      ${reserves(settings) ? 'are reserved before an order is matched' : 'are not checked: every valid order is accepted'}`,
    `  writes     ${settings.auth.bearer ? 'need a bearer token' : 'are open to every client'}`,
    ...(settings.feeds.live ? [pricesLine(settings)] : []),
    '',
    ...(run.devnet === undefined ? [] : await devnetLines(run.devnet, url)),
    '  Try it:',
    `    curl ${url}/api/v1/markets`,
    `    curl ${run.adminUrl}/readyz`,
    ...(settings.web.enabled ? [`    open ${url} in a browser to trade`] : []),
    `    open ${url}/docs in a browser`,
    ...(run.devnet === undefined
      ? []
      : [
          `    npm run demo:maker -- --url ${url}   in another terminal, gives every market a book`,
        ]),
    '',
    run.devnet === undefined
      ? '  Ctrl-C stops the exchange; no answered request is lost.'
      : '  Ctrl-C stops the exchange and ends its chain; the next start makes a new chain.',
    '',
  ]
  return `${lines.join('\n')}\n`
}

/**
 * Returns the line about prices: the assets, the first price provider (on the devnet, the simulator), and the length of
 * quick markets.
 */
function pricesLine({ feeds, quick }: Settings): string {
  const [first] = PRICE_SOURCES.map((source) => feeds[source].url).filter((at) => at !== '')
  const minutes = quick.intervalSeconds / 60
  const from = first === undefined ? 'no provider' : new URL(first).origin
  return `  prices     ${feeds.assets.join(', ')} from ${from}, quick markets of ${minutes} minutes`
}

/** Returns lines with two of the demo traders, and the code of a first trade between them. */
async function devnetLines({ url, again }: Devnet, exchangeUrl: string): Promise<string[]> {
  const { DEMO_TRADERS, devnetAccount, devnetKey } = await import('#devnet/accounts.ts')
  const [ann, bob] = DEMO_TRADERS
  const trader = (index: number) => `${devnetAccount(index).address}  key ${devnetKey(index)}`
  const client = (index: number) => `createClient({ url, signer: '${devnetKey(index)}' })`
  return [
    `  chain      ${url} (id ${DEVNET_CHAIN_ID}, ${again ? 'as it was' : 'fresh'})`,
    `  traders    ${trader(ann)}`,
    `             ${trader(bob)}`,
    '             #10 to #19 of the well-known test accounts have USDC, shares and approvals',
    '',
    '  A first trade, to copy into another terminal in this folder:',
    '',
    'npx node --input-type=module -e "',
    "import { createClient } from '#client/client.ts'",
    `const url = '${exchangeUrl}'`,
    `const ann = ${client(ann)}`,
    `const bob = ${client(bob)}`,
    'const [market] = await ann.markets()',
    "const terms = { marketId: market.id, outcome: 'YES', price: '0.42', ttlSeconds: 3600 }",
    "await ann.orders.place({ ...terms, side: 'sell', size: '10' })",
    "await bob.orders.place({ ...terms, side: 'buy', size: '4' })",
    'console.log(market.question, await ann.trades(market.id))',
    '"',
    '',
  ]
}
