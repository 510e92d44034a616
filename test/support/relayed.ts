/**
 * An exchange with a relayer on a real chain, and people without ether: new keys that own stablecoin or outcome tokens
 * and cannot send transactions.
 */

import type { TestContext } from 'node:test'
import type { Hex } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { type Client, type ClientOptions, createClient } from '#client/client.ts'
import { devnetKey } from '#devnet/accounts.ts'
import { marketAbi } from '../../contracts/artifacts/Market.abi.ts'
import { type Market, UNIT } from '../contracts/support/world.ts'
import { openTestChain, startTestChain, type TestChain } from './chain.ts'
import { type Environment, type Exchange, openExchange, startExchange } from './exchange.ts'

export type Person = { readonly key: Hex; readonly address: Hex; readonly client: Client }

export type Relayed = {
  readonly chain: TestChain
  readonly exchange: Exchange
  /** Settings that the exchange was started with. */
  readonly environment: Environment
  /** Makes a person with a new key and this much stablecoin, in millionths of a dollar; 0 by default. */
  person(usdc?: bigint): Promise<Person>
  /** Makes another client for the same person, for example after a restart of the exchange. */
  again(person: Person, options?: Pick<ClientOptions, 'retries'>): Client
  /** Makes a resolved market; YES wins by default. */
  resolvedMarket(winner?: 'YES' | 'NO'): Promise<Market>
  /** Gives a person these amounts of YES and NO tokens, in millionths; each is 0 by default. */
  give(person: Person, market: Market, shares: { yes?: bigint; no?: bigint }): Promise<void>
  /** Returns the number of transactions that the relayer's first key has on the chain. */
  sent(): Promise<number>
}

/** Lifetime of orders: two days, because the exchange may notice late that a test has moved the chain's clock. */
export const TTL = { ttlSeconds: 172_800 }

/** Settings with which trades settle, unless the test pauses the settlement contract. */
export const SETTLING: Environment = {
  SIBYL_SETTLEMENT_KEY: devnetKey(0),
  SIBYL_SETTLEMENT_MAX_LAG_SECONDS: '0',
}

export type RelayedOptions = {
  /** Returns the RPC address that the exchange uses in place of the chain's own address. */
  readonly rpcUrl?: (chain: TestChain) => Promise<string>
  readonly environment?: Environment
}

/** Starts a chain and an exchange that end with the test. Subtests may use them, too. */
export async function startRelayed(t: TestContext, options: RelayedOptions = {}): Promise<Relayed> {
  const chain = await startTestChain(t)
  const environment = await prepare(chain, options)
  return relayedOn(chain, await startExchange(t, { environment }), environment)
}

/** Starts chain and exchange; the caller ends them with `exchange.dispose` and `chain.close`. */
export async function openRelayed(options: RelayedOptions = {}): Promise<Relayed> {
  const chain = await openTestChain()
  try {
    const environment = await prepare(chain, options)
    return relayedOn(chain, await openExchange({ environment }), environment)
  } catch (error) {
    await chain.close()
    throw error
  }
}

async function prepare(chain: TestChain, options: RelayedOptions): Promise<Environment> {
  const { owner, collateral, relayer } = chain
  // The relayer needs collateral for the bonds that it posts.
  await chain.chain.send(owner, collateral, 'mint', [relayer.address, 10_000n * UNIT])
  const url = (await options.rpcUrl?.(chain)) ?? chain.url
  return {
    SIBYL_DEVNET: 'false',
    SIBYL_DEMO_MARKETS: 'false',
    SIBYL_CHAINS: JSON.stringify([{ ...chain.settings, rpcUrls: [url] }]),
    SIBYL_RELAYER_KEYS: chain.keys.relayer.join(','),
    SIBYL_RELAYER_POLL_MS: '50',
    SIBYL_RELAYER_MIN_HOLDING: String(UNIT),
    // A timeout shorter than the client's, so that the exchange itself reports an unreachable chain.
    SIBYL_REQUEST_DEADLINE_MS: '10000',
    ...options.environment,
  }
}

function relayedOn(chain: TestChain, exchange: Exchange, environment: Environment): Relayed {
  const clientOf = (signer: Hex, options?: Pick<ClientOptions, 'retries'>) =>
    createClient({ url: exchange.url, signer, ...options })
  let quick = 0

  return {
    chain,
    exchange,
    environment,
    async person(usdc = 0n) {
      const key = generatePrivateKey()
      const { address } = privateKeyToAccount(key)
      if (usdc > 0n) await chain.chain.send(chain.owner, chain.collateral, 'mint', [address, usdc])
      return { key, address, client: clientOf(key) }
    },
    again: ({ key }, options) => clientOf(key, options),
    async resolvedMarket(winner = 'YES') {
      const start = (await chain.chain.now()) - 1_000n
      const asset = `TEST${++quick}`
      const args = [asset, start, 60, 100n, 'pyth'] as const
      const { factory, quickOperator } = chain
      await chain.chain.send(quickOperator, factory, 'createQuickMarket', args)
      const [address, id] = await chain.read(factory, 'predictQuickMarket', [asset, start, 60])
      const end = winner === 'YES' ? 101n : 99n
      await chain.chain.send(quickOperator, factory, 'resolveQuickMarket', [
        address,
        100n,
        end,
        'pyth',
      ])
      return { address, abi: marketAbi, id, expiration: start + 60n }
    },
    async give(person, market, { yes = 0n, no = 0n }) {
      const { conditionalTokens, ann } = chain
      const most = yes > no ? yes : no
      await chain.fund(ann, { shares: most, market: market.id })
      for (const [outcome, amount] of [yes, no].entries()) {
        if (amount === 0n) continue
        await chain.chain.send(ann, conditionalTokens, 'safeTransferFrom', [
          ann.address,
          person.address,
          await chain.positionId(market.id, outcome),
          amount,
          '0x',
        ])
      }
    },
    sent: () => chain.publicClient.getTransactionCount({ address: chain.relayer.address }),
  }
}
