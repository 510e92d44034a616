/**
 * A lane (one key on one chain) for tests. The chain is real, but mines only when the test requests it, and the test
 * can cut the connection. The journal in memory survives the lane, as a database survives a process.
 */

import { createPublicClient, custom, type Hex, type LocalAccount, type PublicClient } from 'viem'
import { hardhat } from 'viem/chains'
import { makeLane } from '#chain/sender/lane.ts'
import type { Journal, SenderPolicy, TransactionSender } from '#chain/sender/sender.ts'
import { type Address, toAddress } from '#domain/ids.ts'
import type { TransactionRow } from '#domain/transaction.ts'
import { type Chain, startChain } from '../../contracts/support/chain.ts'

type Ask = { readonly method: string; readonly params: unknown }
/** Answers a request instead of the node. If the interceptor returns undefined, the node answers. */
export type Interceptor = (
  ask: Ask,
  through: () => Promise<unknown>,
) => Promise<unknown> | undefined

export type LaneFixture = {
  readonly chain: Chain
  readonly client: PublicClient
  readonly account: LocalAccount
  readonly journal: Journal
  readonly rows: Map<number, TransactionRow>
  readonly sender: Address
  readonly target: Address & Hex
  /** If set, receives each request on the connection to the node. */
  intercept: Interceptor | undefined
  /** Set to make the journal fail. */
  journalFault: Error | undefined
  nowMs: number
  /** Makes a new lane with the same key and journal, as after a restart of the process. */
  lane(policy?: Partial<SenderPolicy>): TransactionSender
  mine(blocks?: number): Promise<void>
  setBaseFee(wei: bigint): Promise<void>
  /** Returns the number of the key's transactions on the chain. */
  count(): Promise<number>
  /** Returns the number of the key's transactions on the chain and in the node's pool. */
  pendingCount(): Promise<number>
  close(): Promise<void>
}

export const PROMPT: Partial<SenderPolicy> = {
  confirmations: 1,
  rebroadcastAfterMs: 1_000,
  bumpAfterMs: 10_000,
  lostAfterMs: 5_000,
  doubtMs: 5_000,
  giveUpAfterMs: 60_000,
}

export async function laneFixture(accountIndex = 5): Promise<LaneFixture> {
  const chain = await startChain()
  await chain.request('evm_setAutomine', [false])
  const account = chain.account(accountIndex)
  const rows = new Map<number, TransactionRow>()
  const journal: Journal = {
    async load() {
      if (fixture.journalFault !== undefined) throw fixture.journalFault
      return { rows: [...rows.values()], lastNonce: Math.max(-1, ...rows.keys()) }
    },
    async save(row) {
      if (fixture.journalFault !== undefined) throw fixture.journalFault
      if ((rows.get(row.nonce)?.revision ?? -1) < row.revision) rows.set(row.nonce, row)
    },
  }
  const client: PublicClient = createPublicClient({
    chain: hardhat,
    cacheTime: 0,
    transport: custom(
      {
        request: async ({ method, params }: Ask) => {
          const through = () => chain.request(method, (params ?? []) as unknown[])
          const answer = fixture.intercept?.({ method, params }, through)
          return answer === undefined ? through() : answer
        },
      },
      { retryCount: 0 },
    ),
  })
  const fixture: LaneFixture = {
    chain,
    client,
    account,
    journal,
    rows,
    sender: toAddress(account.address),
    target: toAddress(chain.account(6).address) as Address & Hex,
    intercept: undefined,
    journalFault: undefined,
    nowMs: 1_700_000_000_000,
    lane: (policy) =>
      makeLane({
        client,
        account,
        chainId: chain.id,
        journal,
        nowMs: () => fixture.nowMs,
        policy: { ...PROMPT, ...policy },
      }),
    async mine(blocks = 1) {
      for (let block = 0; block < blocks; block++) await chain.request('evm_mine', [])
    },
    async setBaseFee(wei) {
      await chain.request('hardhat_setNextBlockBaseFeePerGas', [`0x${wei.toString(16)}`])
    },
    count: () => chain.publicClient.getTransactionCount({ address: account.address }),
    pendingCount: () =>
      chain.publicClient.getTransactionCount({ address: account.address, blockTag: 'pending' }),
    close: () => chain.close(),
  }
  return fixture
}
