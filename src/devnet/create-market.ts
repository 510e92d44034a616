/** Creates a market through the factory, and waits until the exchange lists it. */

import { setTimeout as sleep } from 'node:timers/promises'
import {
  BaseError,
  ContractFunctionRevertedError,
  createPublicClient,
  createWalletClient,
  defineChain,
  type Hex,
  http,
  toHex,
} from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import type { Client } from '#client/client.ts'
import { SibylError } from '#client/sibyl-error.ts'
import { marketFactoryAbi } from '#contracts/artifacts/MarketFactory.abi.ts'
import { type EventInfo, eventText } from '#domain/event-info.ts'
import type { Matching } from '#domain/market.ts'
import { NATIVE_CURRENCY } from '#domain/native-currency.ts'
import type { ChainConfig } from '#protocol/shapes/config.ts'
import { DEVNET_CHAIN_ID } from './accounts.ts'
import { CommandError } from './command.ts'
import { signEventMarket } from './sign-event.ts'

/** Timeout, in milliseconds, for the exchange to list a new market. */
const LISTED_MS = 30_000
const POLL_MS = 50
const BLOCK_POLL_MS = 50

type CreatedMarket = {
  readonly id: Hex
  readonly address: Hex
  /** Expiration of the market in Unix seconds. */
  readonly expiration: number
}

type MarketOrder = {
  readonly chain: ChainConfig
  readonly rpcUrl: string
  /** Private key of the maker. */
  readonly key: Hex
  readonly terms: readonly [question: string, description: string, category: number]
  /** Seconds until the market expires. */
  readonly seconds: number
  /** Event that the market belongs to, and the key of an operator of the factory. */
  readonly event?: { readonly info: EventInfo; readonly operatorKey: Hex }
  readonly matching?: Matching
}

export async function createMarket(client: Client, order: MarketOrder): Promise<CreatedMarket> {
  const created = await sendCreation(order)
  await untilListed(client, created.id)
  return created
}

async function sendCreation(order: MarketOrder): Promise<CreatedMarket> {
  const { chain, rpcUrl, key, terms, seconds } = order
  const account = privateKeyToAccount(key)
  const over = {
    chain: defineChain({
      id: chain.chainId,
      name: `chain ${chain.chainId}`,
      nativeCurrency: NATIVE_CURRENCY,
      rpcUrls: { default: { http: [rpcUrl] } },
    }),
    transport: http(rpcUrl),
    ...(chain.chainId === DEVNET_CHAIN_ID ? { pollingInterval: BLOCK_POLL_MS } : {}),
  }
  const reader = createPublicClient(over)
  try {
    const { timestamp } = await reader.getBlock()
    const expiration = timestamp + BigInt(seconds)
    const factory = { address: chain.contracts.marketFactory as Hex, abi: marketFactoryAbi }
    const words = [...terms, expiration] as const
    // The market's address follows from its maker, texts and expiration, so it is known before the transaction is sent.
    // The transaction may contain an operator's signature for this address.
    const [address, id] = await reader.readContract({
      ...factory,
      functionName: 'predictMarket',
      args: [account.address, ...words],
    })
    const creation = await creationOf(order, { words, address })
    await reader.simulateContract({ ...factory, ...creation, account } as never)
    const hash = await createWalletClient({ ...over, account }).writeContract({
      ...factory,
      ...creation,
    } as never)
    const { status } = await reader.waitForTransactionReceipt({ hash })
    if (status !== 'success') throw new CommandError(`the transaction ${hash} reverted`)
    return { id, address, expiration: Number(expiration) }
  } catch (error) {
    if (!(error instanceof BaseError)) throw error
    const revert = error.walk((inner) => inner instanceof ContractFunctionRevertedError)
    if (revert instanceof ContractFunctionRevertedError) {
      const why = revert.data?.errorName ?? revert.reason ?? 'the factory gives no reason'
      throw new CommandError(`the factory refuses the market: ${why}`)
    }
    throw new CommandError(`the chain at ${rpcUrl} returned an error: ${error.shortMessage}`)
  }
}

type Words = readonly [question: string, description: string, category: number, expiration: bigint]

/**
 * Returns the factory call that creates the market. For a market of an event, the call contains the operator's
 * signature.
 */
async function creationOf(
  { chain, event, matching }: MarketOrder,
  { words, address }: { readonly words: Words; readonly address: Hex },
) {
  const rule = matching === 'complementary' ? 'Complementary' : ''
  if (event === undefined) return { functionName: `create${rule}Market`, args: words } as const
  const metadata = toHex(eventText(event.info))
  const signature = await signEventMarket(privateKeyToAccount(event.operatorKey), {
    ...{
      chainId: chain.chainId,
      factory: chain.contracts.marketFactory,
      market: address,
      metadata,
    },
  })
  const args = [...words, metadata, signature] as const
  return { functionName: `create${rule}EventMarket`, args } as const
}

/** Waits until the exchange has read the market from the chain and has a book for it. */
async function untilListed(client: Client, id: Hex): Promise<void> {
  const giveUpMs = Date.now() + LISTED_MS
  for (;;) {
    const markets = await client.markets()
    if (markets.some((market) => market.id === id) && (await isKnown(client, id))) return
    if (Date.now() > giveUpMs) {
      throw new CommandError(`market ${id} is on the chain, but the exchange does not list it yet`)
    }
    await sleep(POLL_MS)
  }
}

/**
 * Returns whether the front has the market's book. A front may list a market from the database before it has the book.
 */
async function isKnown(client: Client, id: Hex): Promise<boolean> {
  try {
    await client.market(id)
    return true
  } catch (error) {
    if (error instanceof SibylError && error.code === 'MARKET_NOT_FOUND') return false
    throw error
  }
}
