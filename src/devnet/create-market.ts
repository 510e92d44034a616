/** `npm run market:create`: opens a market through the factory, and waits until it can be traded. */

import {
  BaseError,
  ContractFunctionRevertedError,
  createPublicClient,
  createWalletClient,
  defineChain,
  type Hex,
  http,
} from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import type { ChainConfig } from '#client/answers.ts'
import { type Client, createClient } from '#client/client.ts'
import { marketFactoryAbi } from '#contracts/artifacts/MarketFactory.abi.ts'
import { CATEGORIES } from '#domain/market.ts'
import { DEVNET_CHAIN_ID, MAKER } from './accounts.ts'
import { CommandError, readInteger, readKey, runCommand, sleep, URL_OPTION } from './command.ts'

const YEAR_SEC = 31_536_000
const DAY_SEC = 86_400
/** How long the exchange may take to hear of it. */
const LISTED_MS = 30_000
const POLL_MS = 50
const BLOCK_POLL_MS = 50

await runCommand({
  call: 'npm run market:create --',
  about:
    'Creates a market on the chain of an exchange. On the local chain its maker is account #3;\n' +
    'elsewhere give the key of a maker and a way to the chain.',
  options: {
    question: { value: '<text>', help: 'what YES means, at most 1,024 bytes' },
    description: { value: '<text>', help: 'how it is decided, at most 8,192 bytes', default: '' },
    category: { value: '<name>', help: `one of ${CATEGORIES.join(', ')}`, default: 'general' },
    seconds: { value: '<n>', help: 'until it expires', default: String(7 * DAY_SEC) },
    'key-file': { value: '<path>', help: "a file with the maker's key", default: '' },
    rpc: { value: '<url>', help: "the way to the chain, if not the devnet's", default: '' },
    'chain-id': { value: '<id>', help: 'which chain, if the exchange has several', default: '' },
    url: URL_OPTION,
  },
  async run(values) {
    const category = (CATEGORIES as readonly string[]).indexOf(values.category)
    if (category < 0) throw new CommandError(`--category is one of ${CATEGORIES.join(', ')}`)
    const seconds = readInteger('seconds', values.seconds, 61, 10 * YEAR_SEC)
    const client = createClient({ url: values.url, retries: 0 })
    const chain = await chainOf(client, values['chain-id'])
    const rpcUrl = values.rpc === '' ? chain.rpcUrl : values.rpc
    if (rpcUrl === undefined) {
      throw new CommandError(`--rpc is missing: chain ${chain.chainId} is not the devnet's`)
    }
    if (chain.chainId !== DEVNET_CHAIN_ID && values['key-file'] === '') {
      throw new CommandError(`--key-file is missing: chain ${chain.chainId} is not the devnet's`)
    }
    const { id, address, expiration } = await createMarket({
      chain,
      rpcUrl,
      key: readKey(values['key-file'], MAKER),
      terms: [values.question, values.description, category],
      seconds,
    })
    await untilListed(client, id)
    process.stdout.write(
      `market      ${id}\ncontract    ${address}\n` +
        `expires     ${new Date(Number(expiration) * 1_000).toISOString()}\n`,
    )
  },
})

async function chainOf(client: Client, chainId: string): Promise<ChainConfig> {
  const { chains } = await client.config()
  const found = chains.filter((chain) => chainId === '' || String(chain.chainId) === chainId)
  const [only] = found
  if (found.length === 1 && only !== undefined) return only
  const ids = chains.map((chain) => chain.chainId).join(', ')
  throw new CommandError(`--chain-id is one of ${ids}`)
}

async function createMarket(order: {
  readonly chain: ChainConfig
  readonly rpcUrl: string
  readonly key: Hex
  readonly terms: readonly [question: string, description: string, category: number]
  readonly seconds: number
}): Promise<{ id: Hex; address: Hex; expiration: bigint }> {
  const { chain, rpcUrl, key, terms, seconds } = order
  const account = privateKeyToAccount(key)
  const over = {
    chain: defineChain({
      id: chain.chainId,
      name: `chain ${chain.chainId}`,
      nativeCurrency: { name: 'Ether', symbol: 'ETH', decimals: 18 },
      rpcUrls: { default: { http: [rpcUrl] } },
    }),
    transport: http(rpcUrl),
    ...(chain.chainId === DEVNET_CHAIN_ID ? { pollingInterval: BLOCK_POLL_MS } : {}),
  }
  const reader = createPublicClient(over)
  try {
    const { timestamp } = await reader.getBlock()
    const expiration = timestamp + BigInt(seconds)
    // Its address follows from its words, so it is known before anything is paid.
    const { request, result } = await reader.simulateContract({
      address: chain.contracts.marketFactory as Hex,
      abi: marketFactoryAbi,
      functionName: 'createMarket',
      args: [...terms, expiration],
      account,
    })
    const hash = await createWalletClient({ ...over, account }).writeContract(request)
    const { status } = await reader.waitForTransactionReceipt({ hash })
    if (status !== 'success') throw new CommandError(`the transaction ${hash} reverted`)
    const [address, id] = result
    return { id, address, expiration }
  } catch (error) {
    if (!(error instanceof BaseError)) throw error
    const revert = error.walk((inner) => inner instanceof ContractFunctionRevertedError)
    if (revert instanceof ContractFunctionRevertedError) {
      const why = revert.data?.errorName ?? revert.reason ?? 'it gives no reason'
      throw new CommandError(`the factory refuses the market: ${why}`)
    }
    throw new CommandError(`the chain at ${rpcUrl}: ${error.shortMessage}`)
  }
}

/** The exchange learns of a market from the chain; then its book is there. */
async function untilListed(client: Client, id: Hex): Promise<void> {
  const giveUpMs = Date.now() + LISTED_MS
  for (;;) {
    const markets = await client.markets()
    if (markets.some((market) => market.id === id)) return
    if (Date.now() > giveUpMs) {
      throw new CommandError(`market ${id} is on the chain, but the exchange does not list it yet`)
    }
    await sleep(POLL_MS)
  }
}
