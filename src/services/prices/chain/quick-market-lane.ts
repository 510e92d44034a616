/**
 * Creates quick markets on the chain, reports their outcomes and opens contested markets to the oracle, with the
 * operator's key. Each returned promise resolves when the transaction has enough confirmations. After a restart, a
 * repeated call waits for the transaction that was already sent. If the chain already has the result, no transaction is
 * sent.
 */

import type { OwnAccount } from '#chain/accounts.ts'
import type { Call } from '#chain/call.ts'
import type { ChainClient } from '#chain/clients.ts'
import { conditionalTokens } from '#chain/conditional-tokens.ts'
import { marketContract } from '#chain/market-contract.ts'
import { marketFactory } from '#chain/market-factory.ts'
import { makeLane } from '#chain/sender/lane.ts'
import type { Journal, SenderPolicy, SenderUpdate } from '#chain/sender/sender.ts'
import { Fault } from '#domain/fault.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import { decidingPrice, endSecOf, type QuickMarket } from '#domain/quick-market.ts'
import { evidenceText } from '#domain/quick-votes.ts'

type QuickMarketLane = {
  create(quickMarket: QuickMarket): Promise<string>
  report(quickMarket: QuickMarket): Promise<string>
  openToOracle(quickMarket: QuickMarket): Promise<string>
  /**
   * Starts to poll the chain. Polls often while a transaction is open. Otherwise polls less often, to detect reorgs.
   */
  start(): void
  stop(): void
  /** Number of open transactions. */
  underway(): number
}

type Waiter = { resolve(txHash: string): void; reject(fault: Fault): void }
type Purpose = 'quick-create' | 'quick-report' | 'quick-contest'

type LaneOptions = {
  readonly client: ChainClient
  readonly contracts: {
    readonly marketFactory: Address
    readonly conditionalTokens: Address
    readonly stablecoin: Address
  }
  readonly own: OwnAccount
  readonly journal: Journal
  readonly clock: { nowMs(): number; after(delayMs: number, action: () => void): () => void }
  readonly policy: Partial<SenderPolicy>
  readonly pollMs: number
  readonly idlePollMs: number
  readonly onTrouble: (where: 'rpc' | 'journal', error: unknown) => void
}

/**
 * Sends transactions and waits until they end. If an open transaction has the same purpose and market, the call waits
 * for that transaction instead of sending another one.
 */
function makeAwaitedSends(
  lane: ReturnType<typeof makeLane>,
  options: Pick<LaneOptions, 'own' | 'clock' | 'pollMs' | 'idlePollMs' | 'onTrouble'>,
) {
  const { own, clock, onTrouble } = options
  const waiting = new Map<number, Waiter[]>()
  /**
   * Nonces of transactions that have ended but are still open in the journal. A nonce is removed once the journal has
   * acknowledged the end.
   */
  const unacknowledged = new Set<number>()
  let cancelPoll = (): void => undefined
  let running = false

  async function poll(): Promise<void> {
    try {
      await lane.recover()
      const { news } = await lane.poll()
      for (const one of news) {
        if (one.type === 'finished') end(one)
        // A reorg removed the transaction from its block, so do not acknowledge its end. A later poll reports the end
        // again.
        if (one.type === 'vanished') unacknowledged.delete(one.transaction.nonce)
      }
      await acknowledgeEnds()
    } catch (error) {
      onTrouble('rpc', error)
    }
    if (running) planPoll()
  }

  function planPoll(): void {
    cancelPoll()
    const isBusy = waiting.size > 0 || lane.open().length > 0
    cancelPoll = clock.after(isBusy ? options.pollMs : options.idlePollMs, () => void poll())
  }

  /**
   * Resolves or rejects the calls that wait for this transaction, and marks the transaction for acknowledgement in the
   * journal. The calls do not wait for the acknowledgement: it may fail, and no later poll reports this end again.
   */
  function end({
    transaction,
    outcome,
    receipt,
  }: Extract<SenderUpdate, { type: 'finished' }>): void {
    const { nonce } = transaction
    unacknowledged.add(nonce)
    const waiters = waiting.get(nonce) ?? []
    waiting.delete(nonce)
    for (const waiter of waiters) {
      if (outcome === 'succeeded' && receipt !== undefined) waiter.resolve(receipt.txHash)
      else
        waiter.reject(
          new Fault(
            'CHAIN_REFUSED',
            `the transaction of the quick market ${transaction.reference} with the purpose ${transaction.purpose} was ${outcome}`,
            {
              retryable: true,
            },
          ),
        )
    }
  }

  /**
   * Acknowledges ended transactions in the journal. This is safe even if no caller has received the result: callers
   * repeat their call until the chain has the result.
   */
  async function acknowledgeEnds(): Promise<void> {
    for (const nonce of [...unacknowledged]) {
      try {
        await lane.acknowledge({ sender: own.address, nonce })
        unacknowledged.delete(nonce)
      } catch {
        // The acknowledgement failed, and the sender has logged the error. The nonce stays in the set, so the next poll
        // retries.
      }
    }
  }

  async function done(purpose: Purpose, marketId: MarketId, call: Call): Promise<string> {
    await lane.recover()
    // Do not wait for a transaction that has ended, even if the journal still has it as open.
    const open = lane
      .open()
      .filter(({ nonce }) => !unacknowledged.has(nonce))
      .find(({ purpose: of, reference }) => of === purpose && reference === marketId)
    const { nonce } = open ?? (await lane.send({ ...call, purpose, reference: marketId }))
    const ended = Promise.withResolvers<string>()
    waiting.set(nonce, [...(waiting.get(nonce) ?? []), ended])
    if (running) planPoll()
    return ended.promise
  }

  return {
    done,
    start(): void {
      running = true
      void poll()
    },
    stop(): void {
      running = false
      cancelPoll()
    },
  }
}

export function makeQuickMarketLane(options: LaneOptions): QuickMarketLane {
  const { client, contracts, own, journal, clock, policy, onTrouble } = options
  const { viem, chainId } = client
  const factory = marketFactory(client, contracts.marketFactory)
  const tokens = conditionalTokens(client, contracts.conditionalTokens, contracts.stablecoin)
  const lane = makeLane({
    ...{ client: viem, account: own.account, chainId, journal, policy, onTrouble },
    nowMs: clock.nowMs,
  })
  const sends = makeAwaitedSends(lane, options)
  const { done } = sends

  return {
    async create(quickMarket) {
      const { marketId, contractAddress, asset, startSec, intervalSec, strike } = quickMarket
      if (await factory.isMarket(contractAddress)) return ''
      const startPrice = BigInt(strike.price)
      const { source } = strike
      const { matching = 'same-outcome' } = quickMarket
      const terms = { asset, startSec, intervalSec, startPrice, source, matching }
      return done('quick-create', marketId, factory.createQuickCall(terms))
    },
    async report(quickMarket) {
      const { marketId, contractAddress, resolution } = quickMarket
      if (resolution === null) {
        const message = `the quick market that ends at ${endSecOf(quickMarket)} (Unix seconds) is not decided yet`
        throw new Fault('NOT_DECIDED', message, { retryable: false })
      }
      if ((await tokens.payouts(marketId)).denominator > 0n) return ''
      const { start, source } = resolution
      const call = factory.resolveQuickCall(contractAddress, {
        startPrice: BigInt(start.price),
        endPrice: BigInt(decidingPrice(resolution)),
        source,
      })
      return done('quick-report', marketId, call)
    },
    async openToOracle(quickMarket) {
      const { marketId, contractAddress, contested } = quickMarket
      if (contested === null) {
        throw new Fault(
          'NOT_CONTESTED',
          'the quick market cannot be opened to the oracle, because its price sources do not contradict each other',
          {
            retryable: false,
          },
        )
      }
      if ((await tokens.payouts(marketId)).denominator > 0n) return ''
      const { proposableFromSec, expirationSec } = await marketContract(
        client,
        contractAddress,
      ).terms()
      if (proposableFromSec <= expirationSec) return ''
      const call = factory.contestQuickCall(contractAddress, evidenceText(contested))
      return done('quick-contest', marketId, call)
    },
    start: sends.start,
    stop: sends.stop,
    underway: () => lane.open().length,
  }
}
