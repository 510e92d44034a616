/** An exchange that settles on its own real chain, with demo markets and demo traders. */

import assert from 'node:assert/strict'
import { makeChainClient } from '#chain/clients.ts'
import { settlementContract } from '#chain/settlement-contract.ts'
import { type Client, createClient } from '#client/client.ts'
import { devnetAccount, devnetKey } from '#devnet/accounts.ts'
import { writeChainRecord } from '#devnet/chain-record.ts'
import { type MarketId, type OrderHash, type TradeId, toAddress } from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import type { TradeStatus } from '#domain/trade.ts'
import { openTestChain, type TestChain } from './chain.ts'
import { type Environment, type Exchange, openExchange } from './exchange.ts'
import { marketNumbered, seedMarkets } from './seeded-markets.ts'
import { settledTimes } from './settled-times.ts'

export type Way = {
  readonly tradeId: TradeId
  readonly status: TradeStatus
  readonly txHash: string
  readonly buyOrderHash: OrderHash
  readonly sellOrderHash: OrderHash
  readonly price: Price
  readonly size: Shares
}

const CHAIN_ID = 31_338

export type SettledExchange = {
  readonly chain: TestChain
  readonly exchange: Exchange
  readonly marketId: MarketId
  clientOf(account: number): Client
  get<Body>(path: string): Promise<Body>
  /** The chain's id of a trade. */
  keyOf(trade: Omit<Way, 'status' | 'txHash'>): string
  /** Reads from the chain how often each trade settled, by the id of the trade on the chain. */
  settledTimes(): Promise<Map<string, number>>
  /** Reads a trader's funds on the chain: shares of the first market, and stablecoin. */
  holdings(account: number): Promise<{ yes: bigint; no: bigint; usdc: bigint }>
  dispose(): Promise<void>
}

/** Starts an exchange with the demo markets of a chain. */
export async function openOnChain(
  { settings, genesis, contracts, demoMarkets, url }: TestChain,
  environment: Environment,
  rpcUrl = url,
): Promise<Exchange> {
  const { chainId } = settings
  return openExchange({
    environment: {
      SIBYL_CHAINS: JSON.stringify([{ ...settings, rpcUrls: [rpcUrl] }]),
      SIBYL_DEMO_MARKETS: 'false',
      SIBYL_RESTARTS_MAX: '100',
      ...environment,
    },
    async prepare(dataDir) {
      writeChainRecord(dataDir, { [chainId]: { genesis, url: rpcUrl, contracts } })
      const markets = demoMarkets.map(({ id, address, expiration }, index) => ({
        market: marketNumbered(index + 1, {
          id: id as string as MarketId,
          contractAddress: toAddress(address),
          expiration: Number(expiration),
          chainId,
        }),
      }))
      await seedMarkets(dataDir, markets)
    },
  })
}

export async function openSettled(
  options: {
    readonly environment?: Environment
    readonly rpcUrl?: (chain: TestChain) => Promise<string>
  } = {},
): Promise<SettledExchange> {
  // The chain has the devnet's id, so that services without a configured key use the devnet's public keys. With another
  // chain id, such services do not start.
  const chain = await openTestChain({ seed: true, chainId: CHAIN_ID })
  try {
    const rpcUrl = (await options.rpcUrl?.(chain)) ?? chain.url
    const { contracts, demoMarkets, settings } = chain
    const { chainId } = settings
    const [first] = demoMarkets
    assert(first !== undefined)
    const exchange = await openOnChain(
      chain,
      { SIBYL_SETTLEMENT_KEY: chain.keys.settlement, ...options.environment },
      rpcUrl,
    )
    const audit = makeChainClient({ chainId, rpcUrls: [chain.url] })
    const address = toAddress(contracts.settlement)
    const contract = settlementContract(audit, address)
    return {
      chain,
      exchange,
      marketId: first.id as string as MarketId,
      clientOf: (account) => createClient({ url: exchange.url, signer: devnetKey(account) }),
      async get<Body>(path: string) {
        const response = await fetch(`${exchange.url}${path}`)
        assert.equal(response.status, 200, `${path}: ${response.status}`)
        return (await response.json()) as Body
      },
      keyOf: (trade) => contract.tradeKeyOf(trade),
      settledTimes: () => settledTimes(audit, address),
      async holdings(account) {
        const holder = devnetAccount(account).address
        return {
          yes: await chain.shares(holder, first.id, 0),
          no: await chain.shares(holder, first.id, 1),
          usdc: await chain.balance(holder),
        }
      },
      async dispose() {
        await exchange.dispose()
        await chain.close()
      },
    }
  } catch (error) {
    await chain.close()
    throw error
  }
}
