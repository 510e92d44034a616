/**
 * Tests the search for transactions in logs. Some of the nodes return logs of only a few blocks at a time, or return
 * new logs late.
 */

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { ChainClient } from '#chain/clients.ts'
import type { ConditionalTokens } from '#chain/conditional-tokens.ts'
import { LOG_QUESTIONS_MAX, makeLogSearch } from '#chain/log-search.ts'
import type { TransactionSender } from '#chain/sender/sender.ts'
import type { SettlementContract } from '#chain/settlement-contract.ts'
import { Fault } from '#domain/fault.ts'
import type { Address } from '#domain/ids.ts'
import type { TradeToSettle } from '#domain/trade.ts'
import { resolvedBy } from '#services/relayer/chain/resolved-by.ts'
import { makeSettlementLane } from '#services/settlement/chain/settlement-lane.ts'

const HEAD = 20_000_000
const CONTRACT = `0x${'1'.repeat(40)}` as Address

/** A node that knows the block in which each trade settled. */
class LogNode {
  /** Maximum number of blocks per query of logs. */
  most = Number.POSITIVE_INFINITY
  refusal = new Fault('CHAIN_RANGE_TOO_LARGE', 'the block range is too large', { retryable: true })
  questions = 0
  readonly settledAt = new Map<string, number>()

  constructor(settledAt: Record<string, number> = {}) {
    for (const [tradeId, at] of Object.entries(settledAt)) this.settledAt.set(keyOf(tradeId), at)
  }

  /** The trades of these blocks. */
  found(fromBlock: number, toBlock: number): string[] {
    this.questions++
    if (toBlock - fromBlock >= this.most) throw this.refusal
    return [...this.settledAt].flatMap(([key, at]) => (fromBlock <= at && at <= toBlock ? key : []))
  }

  readonly client = {
    viem: {
      getBlockNumber: async () => BigInt(HEAD),
      getLogs: async ({ fromBlock, toBlock, args }: LogsAsked) =>
        this.found(Number(fromBlock), Number(toBlock))
          .filter((key) => args.tradeId.includes(key))
          .map((key) => ({ topics: ['', key], transactionHash: hashOf(key) })),
      getContractEvents: async ({ fromBlock, toBlock }: LogsAsked) =>
        this.found(Number(fromBlock), Number(toBlock)).map((key) => ({
          transactionHash: hashOf(key),
        })),
    },
  } as unknown as ChainClient
}

type LogsAsked = { fromBlock: bigint; toBlock: bigint; args: { tradeId: readonly string[] } }

function keyOf(tradeId: string): string {
  return `0x${tradeId.padStart(64, '0')}`
}

function hashOf(key: string): string {
  return key.replace('0x', '0xabc')
}

/** Returns a function that looks up the transactions of settled trades in the logs of the node. */
function settlementAt({ client }: LogNode) {
  const contract = {
    address: CONTRACT,
    areSettled: async (names: readonly unknown[]) => names.map(() => true),
  } as unknown as SettlementContract
  const lane = makeSettlementLane({
    ...{ client, contract, confirmations: 0, startBlock: 0 },
    tokens: { isPrepared: async () => true } as unknown as ConditionalTokens,
    withHoldings: async (refused) => refused,
    simulate: async () => ({ refused: [] }),
    spare: async (trades) => ({ earlier: new Map(), fitting: trades }),
    sender: {} as TransactionSender,
  })
  return async (...tradeIds: string[]) => {
    const trades = tradeIds.map(
      (tradeId) =>
        ({
          ...{ tradeId, tradeKey: keyOf(tradeId), marketId: 'm', status: 'submitted' },
          attempts: 1,
        }) as unknown as TradeToSettle,
    )
    const { settled, unconfirmed } = await lane.submit(trades, { usedPermits: new Set() })
    for (const { tradeId, txHash } of settled) assert.equal(txHash, hashOf(keyOf(tradeId)))
    return { settled: settled.map(({ tradeId }) => tradeId), unconfirmed }
  }
}

describe('the transaction that settled a trade is found in the logs of the chain', () => {
  it('if the Ethereum node returns all logs at once, one request finds the settlements of all trades', async () => {
    const node = new LogNode({ a: 5, b: HEAD })
    assert.deepEqual(await settlementAt(node)('a', 'b'), { settled: ['a', 'b'], unconfirmed: [] })
    assert.equal(node.questions, 1)
  })

  for (const most of [100, 10, 1]) {
    it(`the search for trades adapts to an Ethereum node that returns the logs of at most ${most} blocks per request`, async () => {
      const node = new LogNode({ a: HEAD - 5 })
      node.most = most
      assert.deepEqual(await settlementAt(node)('a'), { settled: ['a'], unconfirmed: [] })
    })
  }

  it('a trade whose settlement is not found stays unconfirmed until a later search, without delaying other trades', async () => {
    const node = new LogNode({ a: HEAD - 5 })
    node.most = 500
    const ask = settlementAt(node)
    assert.deepEqual(await ask('late', 'a'), { settled: ['a'], unconfirmed: ['late'] })
    assert.equal(node.questions, LOG_QUESTIONS_MAX)
    node.settledAt.set(keyOf('late'), HEAD - 3)
    assert.deepEqual(await ask('late'), { settled: ['late'], unconfirmed: [] })
  })

  for (const code of ['CHAIN_REFUSED', 'CHAIN_RANGE_TOO_LARGE', 'CHAIN_UNAVAILABLE'] as const) {
    it(`if the Ethereum node refuses log queries (${code}), the search leaves trades unconfirmed and reports no error`, async () => {
      const node = new LogNode({ a: HEAD - 5 })
      node.most = 0
      node.refusal = new Fault(code, 'no logs here', { retryable: true })
      assert.deepEqual(await settlementAt(node)('a'), { settled: [], unconfirmed: ['a'] })
      assert.ok(node.questions <= LOG_QUESTIONS_MAX)
    })
  }
})

describe('the transaction that resolved a market is found in the logs of the chain', () => {
  it('a resolution is found even if the Ethereum node returns logs of only a few blocks per request', async () => {
    const node = new LogNode({ a: HEAD - 5 })
    node.most = 10
    assert.equal(await resolvedBy(node.client, CONTRACT, 0), hashOf(keyOf('a')))
  })

  it('the search for a resolution fails with a fault if the Ethereum node does not answer', async () => {
    const node = new LogNode()
    node.most = 0
    node.refusal = new Fault('CHAIN_UNAVAILABLE', 'away', { retryable: true })
    await assert.rejects(resolvedBy(node.client, CONTRACT, 0), { code: 'CHAIN_UNAVAILABLE' })
  })
})

describe('a log search scans the blocks of the chain in steps', () => {
  it('a log search continues where its previous step ended, and starts over after the last block', async () => {
    const node = new LogNode()
    node.most = 64
    const search = makeLogSearch()
    const head = 20_000
    const seen = new Set<number>()
    const ask = async (fromBlock: number, toBlock: number): Promise<boolean> => {
      node.found(fromBlock, toBlock)
      for (let block = fromBlock; block <= toBlock; block++) seen.add(block)
      return false
    }
    let calls = 0
    for (; seen.size <= head; calls++) await search({ head, startBlock: 0, ask })
    assert.ok(calls > 1)
    assert.ok(node.questions <= calls * LOG_QUESTIONS_MAX)
    seen.clear()
    for (; seen.size <= head; calls--) {
      assert.ok(calls > 0, 'the second time takes no longer')
      await search({ head, startBlock: 0, ask })
    }
  })
})
