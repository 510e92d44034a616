/** A relayer without a chain: all ports answer from tables that the test controls. */

import assert from 'node:assert/strict'
import { Fault } from '#domain/fault.ts'
import type { Address, MarketId, Uint256 } from '#domain/ids.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import {
  type CtfApproval,
  type CtfRedemption,
  type ProposeResolution,
  purposeOf,
  type RelayKey,
  type RelayOperation,
  type RelayRecord,
  type SettleMarket,
} from '#domain/relay.ts'
import { type HeldOrders, NO_NEEDS, type TraderNeeds } from '#domain/trader-hold.ts'
import type { RelayAnswer } from '#protocol/relayer.ts'
import { type Served, serve } from '#runtime/serve.ts'
import type { RelayGuard } from '#services/relayer/chain/relay-examination.ts'
import type { LaneTransaction, LaneUpdate } from '#services/relayer/chain/relay-lanes.ts'
import type { RelayerPorts } from '#services/relayer/ports.ts'
import { newRelayer, relayer } from '#services/relayer/relayer.ts'
import type {
  RelayerEvent,
  RelayerProtocol,
  RelayerRules,
  RelayerState,
} from '#services/relayer/state.ts'
import type { RelayChange } from '#store/writes/relays.ts'
import { type SimulatedClock, simulatedClock } from '../../support/simulated-clock.ts'

export const NOON_MS = 1_800_014_400_000
export const LANES = [`0x${'1'.repeat(40)}`, `0x${'2'.repeat(40)}`] as Address[]
export const RULES: RelayerRules = {
  chainId: 1,
  ownerRate: undefined,
  gasPerDay: {
    redemption: { ownerGas: 1_000_000, allGas: 10_000_000 },
    other: { ownerGas: 1_000_000, allGas: 10_000_000 },
  },
  newcomers: { ownerGas: 1_000_000, gasPerTrade: 0, keptPercent: 0 },
  balanceMin: 10n,
  balanceLow: 100n,
  stuckAfterMs: 5_000,
  pollMs: 100,
  idlePollMs: 1_000,
  weighMs: 60_000,
}
export const AWAY = new Fault('STORE_AWAY', 'the store did not answer', { retryable: true })

/** The relayer's ports: a database in memory, lanes that send at once, and results that the test delivers. */
export class World {
  readonly rows = new Map<RelayKey, RelayRecord>()
  readonly sent: { lane: Address; reference: string; nonce: number }[] = []
  readonly acknowledged: number[] = []
  readonly examined: RelayOperation[] = []
  readonly changes: RelayChange[] = []
  news: LaneUpdate[] = []
  open: LaneTransaction[] = []
  gas = 100_000
  balances = ['1000', '1000']
  fault: Partial<Record<keyof RelayerPorts, Error>> = {}
  verdict: Rejection | undefined
  /** `doneBy` is the transaction that already did what the operation requests; undefined if none did. */
  done: { doneBy?: string } = {}
  /** Condition that the owner's orders and trades must meet, so that the operation is sent. */
  guard: RelayGuard | undefined
  /** True if a delegate of the owner signs all operations. */
  byDelegate = false
  /** Answer of the market threads to a hold: what the owner's open orders and unsettled trades need. */
  needs: TraderNeeds | Rejection = NO_NEEDS
  /**
   * By operation: its owner, and the kinds of the owner's new orders that market threads refuse until the operation
   * ends.
   */
  readonly held = new Map<RelayKey, { owner: Address; orders: HeldOrders }>()
  /** Number of settled trades of each owner. */
  readonly trades = new Map<Address, number>()
  /** Port whose work succeeds, but whose answer is lost. */
  lostAfter: 'open' | undefined

  #may(port: keyof RelayerPorts): void {
    const fault = this.fault[port]
    if (fault !== undefined) throw fault
  }

  readonly ports: { -readonly [Port in keyof RelayerPorts]: RelayerPorts[Port] } = {
    recover: async () => this.open,
    unfinished: async () => [...this.rows.values()].filter(({ status }) => isUnfinished(status)),
    gasSince: async () => ({ redemption: 0, other: 0 }),
    find: async (key, { owner, kind }) => {
      this.#may('find')
      let gas = 0
      for (const row of this.rows.values()) {
        if (row.owner === owner && purposeOf(row.kind) === purposeOf(kind)) gas += row.gas
      }
      return { record: this.rows.get(key), gas, trades: this.trades.get(owner) ?? 0 }
    },
    examine: async (operation) => {
      this.#may('examine')
      this.examined.push(operation)
      const guard = this.guard === undefined ? {} : { guard: this.guard }
      const { byDelegate } = this
      return this.verdict ?? { claims: [], ownBond: false, ...this.done, ...guard, byDelegate }
    },
    hold: async (key, owner, orders) => {
      this.#may('hold')
      this.held.set(key, { owner, orders })
      return this.needs
    },
    lift: (key) => void this.held.delete(key),
    attempt: async (_operation, _examination, [lane]) => {
      this.#may('attempt')
      assert.ok(lane)
      return { lane, to: lane, data: '0x', gas: this.gas }
    },
    open: async (relay) => {
      this.#may('open')
      const { claims: _, atMs, ...rest } = relay
      const before = this.rows.get(relay.key)
      const isNext = before?.status === 'failed' && before.attempt + 1 === relay.attempt
      if (before !== undefined && !isNext) return { record: before, opened: false }
      const record: RelayRecord = {
        ...rest,
        ...{ status: 'sending', gas: (before?.gas ?? 0) + relay.gas, txHash: '', reason: '' },
        openedAtMs: atMs,
        updatedAtMs: atMs,
      }
      this.rows.set(relay.key, record)
      if (this.lostAfter === 'open') throw AWAY
      return { record, opened: true }
    },
    change: async (change) => {
      this.#may('change')
      this.changes.push(change)
      const row = this.rows.get(change.key)
      const { status, reason, attempt } = change
      if (row === undefined) return false
      const isLate = status === 'confirmed' && row.status === 'failed' && attempt < row.attempt
      if (row.attempt !== attempt && !isLate) return false
      const txHash = change.txHash === '' ? row.txHash : change.txHash
      const gas = isLate ? row.gas : (change.gas ?? row.gas)
      this.rows.set(change.key, { ...row, status, reason, txHash, gas })
      return true
    },
    send: async ({ lane }, reference) => {
      this.#may('send')
      const nonce = this.sent.length
      this.sent.push({ lane, reference, nonce })
      return { txHash: hashOf(nonce), nonce }
    },
    poll: async (lane) => {
      this.#may('poll')
      const mine = this.news.filter((one) => one.lane === lane)
      this.news = this.news.filter((one) => one.lane !== lane)
      return mine
    },
    acknowledge: async (_lane, nonce) => {
      this.#may('acknowledge')
      this.acknowledged.push(nonce)
    },
    nonces: async () => ({ conditionalTokens: '0', stablecoin: '0', delegates: '0' }),
    balances: async () => LANES.map((lane, at) => ({ lane, wei: this.balances[at] ?? '0' })),
  }

  /** Reports that the chain has mined or finalised the transaction of this operation. */
  tell(nonce: number, type: 'mined' | 'finished', outcome: 'succeeded' | 'reverted' = 'succeeded') {
    const one = this.sent[nonce]
    assert.ok(one)
    const { lane, reference } = one
    const place = { lane, reference, nonce, txHash: hashOf(nonce), gasUsed: 60_000 }
    this.news.push(type === 'mined' ? { ...place, type } : { ...place, type, outcome })
  }
}

function isUnfinished(status: string): boolean {
  return status === 'sending' || status === 'submitted'
}

export function hashOf(nonce: number): string {
  return `0x${String(nonce).padStart(64, '0')}`
}

export type Asked = CtfApproval | CtfRedemption | ProposeResolution | SettleMarket

export type Harness = {
  readonly world: World
  readonly clock: SimulatedClock
  readonly state: RelayerState
  readonly events: RelayerEvent[]
  relay(operation: Asked, deadlineMs?: number): Promise<RelayAnswer | Rejection>
  /** Waits until all work is done that does not need the clock to advance. */
  settle(): Promise<void>
  advance(ms: number): Promise<void>
}

export async function start(
  world = new World(),
  rules: Partial<RelayerRules> = {},
  clock = simulatedClock(NOON_MS),
): Promise<Harness> {
  const state = newRelayer({ ...RULES, ...rules }, world.ports, LANES)
  const events: RelayerEvent[] = []
  const served: Served = serve<RelayerState, RelayerProtocol, RelayerEvent>({
    behaviour: relayer,
    select: () => ({ state }),
    clock,
    mailboxMax: 1_000,
    batchMax: 1_000,
    full: reject('OVERLOADED'),
    say: (said) => void events.push(...said),
  })
  let asked = 0
  const settle = async () => {
    for (let turn = 0; turn < 12; turn++) {
      await served.drained()
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  served.hear('Begin', {}, 0, undefined)
  await settle()
  return {
    world,
    clock,
    state,
    events,
    relay: (operation, deadlineMs = 10_000) =>
      new Promise((resolve) => {
        const message = {
          key: keyOf(operation),
          operation,
          deadlineAtMs: clock.nowMs() + deadlineMs,
        }
        const channel = { reply: (_: number, answer: unknown) => resolve(answer as RelayAnswer) }
        served.hear('Relay', message, ++asked, channel)
      }),
    settle,
    async advance(ms) {
      await settle()
      clock.advance(ms)
      await settle()
    },
  }
}

export function keyOf({ owner, deadline }: Asked): RelayKey {
  return `0x${owner.slice(2)}${deadline.padStart(24, '0')}`
}

export function approval(owner: string, number = 1): CtfApproval {
  return {
    kind: 'ctf-approval',
    chainId: 1,
    owner: `0x${owner.repeat(40)}` as Address,
    operator: LANES[0]!,
    approved: true,
    deadline: String(number) as Uint256,
    v: 27,
    r: '0x',
    s: '0x',
  }
}

export function redemption(owner: string, number = 1): CtfRedemption {
  const { approved: _, operator, ...rest } = approval(owner, number)
  return {
    ...rest,
    kind: 'ctf-redemption',
    collateralToken: operator,
    parentCollectionId: '0x',
    conditionId: '0x' as MarketId,
    indexSets: [],
  }
}

/** Returns a proposal for which the relayer posts the bond. */
export function proposal(owner: string, number = 1): ProposeResolution {
  const { approved: outcome, operator: marketAddress, ...rest } = approval(owner, number)
  return { ...rest, kind: 'propose-resolution', marketAddress, outcome }
}

export function settlement(owner: string, number = 1): SettleMarket {
  const { approved: _, operator: marketAddress, ...rest } = approval(owner, number)
  return { ...rest, kind: 'settle-market', marketAddress, winningOutcome: 0 }
}

export function code(answer: RelayAnswer | Rejection): string {
  return isRejection(answer) ? answer.rejected : answer.status
}
