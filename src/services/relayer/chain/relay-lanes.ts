/**
 * The relayer's keys, each with its lane (its transactions on this chain). A transaction is sent by the key with
 * which it was simulated. Results of transactions are reported as plain data.
 */

import assert from 'node:assert/strict'
import type { OwnAccount } from '#chain/accounts.ts'
import type { ChainClient } from '#chain/clients.ts'
import { makeLane } from '#chain/sender/lane.ts'
import type {
  Journal,
  SenderPolicy,
  SenderUpdate,
  TransactionSender,
} from '#chain/sender/sender.ts'
import type { Address } from '#domain/ids.ts'
import { knownHash, type TransactionRow } from '#domain/transaction.ts'
import type { RelayTrial } from './relay-examination.ts'

/** A transaction of the relayer, as plain data for the actor. */
export type LaneTransaction = {
  readonly lane: Address
  readonly nonce: number
  readonly reference: string
  /** Hash of the mined transaction, or of the newest signed one. */
  readonly txHash: string
}

export type LaneUpdate = LaneTransaction &
  (
    | { readonly type: 'replaced' | 'vanished' }
    | { readonly type: 'mined'; readonly gasUsed: number }
    | {
        readonly type: 'finished'
        readonly outcome: 'succeeded' | 'reverted' | 'cancelled' | 'lost'
        readonly gasUsed: number | null
      }
  )

type RelayLanes = {
  readonly addresses: readonly Address[]
  recover(): Promise<LaneTransaction[]>
  send(trial: RelayTrial, reference: string): Promise<{ txHash: string; nonce: number }>
  poll(lane: Address): Promise<LaneUpdate[]>
  acknowledge(lane: Address, nonce: number): Promise<void>
}

const PURPOSE = 'relay'

export function makeRelayLanes(options: {
  readonly client: ChainClient
  readonly accounts: readonly OwnAccount[]
  readonly journal: Journal
  readonly nowMs: () => number
  readonly policy: Partial<SenderPolicy>
  readonly onTrouble: (where: 'rpc' | 'journal', error: unknown) => void
}): RelayLanes {
  const { client, journal, nowMs, policy, onTrouble } = options
  const lanes = new Map<Address, TransactionSender>()
  for (const { account, address } of options.accounts) {
    const { viem, chainId } = client
    const lane = makeLane({ client: viem, account, chainId, journal, nowMs, policy, onTrouble })
    lanes.set(address, lane)
  }
  const laneOf = (address: Address): TransactionSender => {
    const lane = lanes.get(address)
    assert(lane !== undefined, `there is no lane of ${address}`)
    return lane
  }
  return {
    addresses: [...lanes.keys()],
    async recover() {
      const open = await Promise.all([...lanes.values()].map((lane) => lane.recover()))
      return open.flat().map((row) => transactionOf(row))
    },
    async send({ lane, to, data, gas }, reference) {
      const request = { to, data, gas: BigInt(gas), purpose: PURPOSE, reference }
      const { txHash, nonce } = transactionOf(await laneOf(lane).send(request))
      return { txHash, nonce }
    },
    async poll(lane) {
      const { news } = await laneOf(lane).poll()
      return news.map(newsOf)
    },
    acknowledge: (lane, nonce) => laneOf(lane).acknowledge({ sender: lane, nonce }),
  }
}

function transactionOf(row: TransactionRow, minedHash?: string): LaneTransaction {
  const txHash = minedHash ?? knownHash(row)
  return { lane: row.sender, nonce: row.nonce, reference: row.reference, txHash }
}

function newsOf(news: SenderUpdate): LaneUpdate {
  switch (news.type) {
    case 'replaced':
    case 'vanished':
      return { ...transactionOf(news.transaction), type: news.type }
    case 'mined': {
      const { txHash, gasUsed } = news.receipt
      return { ...transactionOf(news.transaction, txHash), type: 'mined', gasUsed }
    }
    case 'finished': {
      const { transaction, outcome, receipt } = news
      const gasUsed = receipt?.gasUsed ?? null
      return { ...transactionOf(transaction, receipt?.txHash), type: 'finished', outcome, gasUsed }
    }
  }
}
