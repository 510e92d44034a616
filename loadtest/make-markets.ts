/**
 * `npm run load -- markets --count 100`: opens markets on the local chain of a running exchange until it lists this
 * many, because a load test needs more than the initial three.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { encodeFunctionData, type Hex } from 'viem'
import { marketFactoryAbi } from '#contracts/artifacts/MarketFactory.abi.ts'
import { devnetAccount, MAKER } from '#devnet/accounts.ts'
import { httpBatch } from '#devnet/batch-sender.ts'
import { CommandError, readInteger, runCommand } from '#devnet/command.ts'
import { CATEGORIES } from '#domain/market.ts'
import { readJson, reasonOf } from './target.ts'

const DAY_SEC = 86_400
const LISTED_MS = 60_000
const POLL_MS = 200
const GAS = 2_000_000
/** Number of transactions in one batch to the chain. */
const AT_ONCE = 50

type Config = {
  readonly chains: readonly {
    readonly chainId: number
    readonly rpcUrl?: string
    readonly contracts: { readonly marketFactory?: string }
  }[]
}

await runCommand({
  call: 'npm run load -- markets',
  about: 'Opens markets on the local chain until the exchange lists so many.',
  options: {
    count: { value: '<n>', help: 'how many there are to be', default: '100' },
    url: { value: '<url>', help: 'where the exchange is', default: 'http://127.0.0.1:8080' },
  },
  async run({ url, count: asked }) {
    const count = readInteger('count', asked, 1, 10_000)
    const listed = async (): Promise<number> =>
      (await readJson<{ count: number }>(`${url}/api/v1/markets`)).count
    const config = await readJson<Config>(`${url}/api/v1/config`).catch((error: unknown) => {
      throw new CommandError(`${url} cannot be reached: ${reasonOf(error)}`)
    })
    const chain = config.chains.find(({ rpcUrl }) => rpcUrl !== undefined)
    if (chain?.rpcUrl === undefined || chain.contracts.marketFactory === undefined) {
      throw new CommandError(
        'the exchange has no local chain on which markets can be created: instead, start the exchange with SIBYL_DEMO_MARKETS_MORE',
      )
    }
    const missing = count - (await listed())
    if (missing > 0) await openMarkets(chain.rpcUrl, chain.contracts.marketFactory as Hex, missing)
    const giveUpMs = Date.now() + LISTED_MS
    for (let now = await listed(); now < count; now = await listed()) {
      if (Date.now() > giveUpMs) {
        throw new CommandError(
          `the exchange listed only ${now} markets in time; the others are on the chain, but not listed yet`,
        )
      }
      await sleep(POLL_MS)
    }
    process.stdout.write(`${await listed()} markets\n`)
  },
})

/** Opens the markets from accounts for which the local node signs. */
async function openMarkets(rpcUrl: string, factory: Hex, count: number): Promise<void> {
  const rpc = httpBatch(rpcUrl)
  const [latest] = await rpc([{ method: 'eth_getBlockByNumber', params: ['latest', false] }])
  const nowSec = Number((latest as { timestamp: Hex }).timestamp)
  const from = devnetAccount(MAKER).address
  const calls = Array.from({ length: count }, (_, index) => {
    const data = encodeFunctionData({
      abi: marketFactoryAbi,
      functionName: 'createMarket',
      args: [
        `Will load test ${index + 1} of ${nowSec} be fast enough?`,
        'YES if no trader has to wait for it.',
        CATEGORIES.indexOf('general'),
        BigInt(nowSec + 30 * DAY_SEC),
      ],
    })
    const gas = `0x${GAS.toString(16)}`
    return { method: 'eth_sendTransaction', params: [{ from, to: factory, data, gas }] }
  })
  for (let at = 0; at < calls.length; at += AT_ONCE) await rpc(calls.slice(at, at + AT_ONCE))
}
