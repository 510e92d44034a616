/**
 * `npm run audit`: computes all derived data again from the trades and the chain, and compares it with the stored data.
 * It also lists the newest chain events that the indexer could not decode or store. It only reads, and may run beside a
 * working exchange. Exits with 1 if something differs, and with 2 if it could not check.
 */

import { makeChainClient } from '#chain/clients.ts'
import { conditionalTokens } from '#chain/conditional-tokens.ts'
import { loadSettings } from '#config/settings.ts'
import type { Settings } from '#config/settings-schema.ts'
import { databaseUrlOf } from '#config/thread-data.ts'
import { readChainRecord } from '#devnet/chain-record.ts'
import { runCommand } from '#devnet/command.ts'
import { toAddress } from '#domain/ids.ts'
import { partsOf } from '#domain/parts-of.ts'
import { auditPositions, heldAt } from '#store/audit/audit-positions.ts'
import { auditSetAside } from '#store/audit/audit-set-aside.ts'
import { auditTrades, type Difference } from '#store/audit/audit-trades.ts'
import { closeDatabase, type Database } from '#store/engine/database.ts'
import { describeDatabaseUrl } from '#store/engine/database-url.ts'
import { openDatabase } from '#store/open-database.ts'
import { auditFunds } from './audit-funds.ts'

/** Maximum number of pairs of holder and market whose balances one request to the chain reads. */
const PAIRS_MAX = 200
const SHOWN_MAX = 50

const say = (line: string): boolean => process.stdout.write(`${line}\n`)

await runCommand({
  call: 'npm run audit --',
  about:
    'Recalculates volumes, prices, holders, open interest, positions and profits from the trades and from\n' +
    'the chain, and reports every difference. The command changes no data and may run while the exchange runs.\n' +
    'Exits with 1 if there are differences, and with 2 if the check could not be completed.',
  options: {
    url: {
      value: '<url>',
      help: 'also compares the reservations of the exchange at this URL, if that exchange reserves funds',
      default: '',
    },
  },
  async run({ url }) {
    try {
      await look(url)
    } catch (error) {
      process.stderr.write(`audit: ${error instanceof Error ? error.message : String(error)}\n`)
      process.exitCode = 2
    }
  },
})

async function look(exchangeUrl: string): Promise<void> {
  const settings = loadSettings()
  const url = databaseUrlOf(settings)
  const database = await openDatabase(url, {
    readOnly: true,
    silentMsMax: Number.POSITIVE_INFINITY,
  })
  try {
    say(`audit of ${describeDatabaseUrl(url)}`)
    const differences = await audit(database, settings, exchangeUrl)
    for (const { what, kept, expected } of differences.slice(0, SHOWN_MAX)) {
      say(`  ${what}: the exchange has ${kept}, but should have ${expected}`)
    }
    say(differences.length === 0 ? 'no difference' : `${differences.length} differences`)
    if (differences.length > 0) process.exitCode = 1
  } finally {
    await closeDatabase(database)
  }
}

async function audit(
  database: Database,
  settings: Settings,
  exchangeUrl: string,
): Promise<Difference[]> {
  const trades = await auditTrades(database)
  say(`  ${trades.trades} trades of ${trades.markets} markets, ${trades.candles} candles`)
  const positions = await auditPositions(database)
  say(`  ${positions.positions} positions in ${positions.markets} markets on chain`)
  const setAside = await auditSetAside(database)
  say(`  ${setAside.length} events of the chain set aside (not decoded or not stored)`)
  for (const { chainId, txHash, blockNumber, logIndex, event, why } of setAside.slice(-SHOWN_MAX)) {
    say(
      `    ${event} in ${txHash} (chain ${chainId}, block ${blockNumber}, log ${logIndex}): ${why}`,
    )
  }
  const differences = [...trades.differences, ...positions.differences]
  for (const chain of chainsOf(settings)) differences.push(...(await askChain(database, chain)))
  differences.push(...(await askExchange(database, settings, exchangeUrl)))
  return differences
}

/**
 * If the exchange's URL is given, compares the reservations computed from the database and the logs with those that the
 * exchange reports.
 */
async function askExchange(
  database: Database,
  settings: Settings,
  url: string,
): Promise<readonly Difference[]> {
  if (url === '') return []
  const chainIds = settings.chains.map(({ chainId }) => chainId)
  const found = await auditFunds(database, { dataDir: settings.data.dir, url, chainIds })
  if (found === undefined) {
    say(`  the exchange at ${url} reserves no funds, so no reservations were compared`)
    return []
  }
  const busy =
    found.busy === 0 ? '' : `; ${found.busy} traders not compared: their funds kept changing`
  say(`  reservations of ${found.traders} traders compared with ${url}${busy}`)
  return found.differences
}

type AskedChain = {
  readonly chainId: number
  readonly rpcUrls: readonly string[]
  readonly contracts: Readonly<Record<string, string>>
}

/**
 * Returns the chains that have an RPC URL in the settings, and the chains that only the data folder records, such as a
 * local chain. If a chain is in both, the URL of the settings is used. The folder stores a URL without its path,
 * because the path may contain a secret for the Ethereum node.
 */
function chainsOf({ chains, data }: Settings): AskedChain[] {
  const named: AskedChain[] = chains.filter(({ rpcUrls }) => rpcUrls.length > 0)
  const known = new Set(named.map(({ chainId }) => chainId))
  const recorded = Object.entries(readChainRecord(data.dir) ?? {}).map(([id, chain]) => ({
    chainId: Number(id),
    rpcUrls: [chain.url],
    contracts: chain.contracts,
  }))
  return [...named, ...recorded.filter(({ chainId }) => !known.has(chainId))]
}

/** Compares all positions in the database with the balances on the chain at the same block. */
async function askChain(
  database: Database,
  { chainId, rpcUrls, contracts }: AskedChain,
): Promise<Difference[]> {
  const known = await heldAt(database, chainId)
  const { conditionalTokens: tokensAddress, stablecoin } = contracts
  if (known === undefined || tokensAddress === undefined || stablecoin === undefined) return []
  const client = makeChainClient({ chainId, rpcUrls })
  const tokens = conditionalTokens(client, toAddress(tokensAddress), toAddress(stablecoin))
  const { blockNumber, held } = known
  const differences: Difference[] = []
  for (const part of partsOf(held, PAIRS_MAX)) {
    const { shares } = await tokens.balances(part, blockNumber)
    for (const [at, { holder, marketId, shares: kept }] of part.entries()) {
      const [yes, no] = shares[at] ?? [0n, 0n]
      if (yes === kept[0] && no === kept[1]) continue
      const what = `balances of ${holder} in ${marketId} at block ${blockNumber} of chain ${chainId}`
      differences.push({
        what,
        kept: `YES ${kept[0]}, NO ${kept[1]}`,
        expected: `YES ${yes}, NO ${no}`,
      })
    }
  }
  say(`  balances of ${held.length} holders compared with chain ${chainId} at block ${blockNumber}`)
  return differences
}
