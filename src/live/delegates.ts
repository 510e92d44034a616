/**
 * Delegations, as a front knows them: from the database at its start and from messages of the indexer. Nearly all
 * accounts have no delegate, and a front remembers which ones do, so a signature for any other account needs no read. An
 * account's delegations are read with its first order and again after each change. Any account can appoint delegates for
 * the price of gas, so memory is bounded: if there are too many accounts, each is read once and remembered for a while.
 */

import type { ChainEvent } from '#domain/chain-event.ts'
import type { Delegation } from '#domain/delegate.ts'
import { Fault } from '#domain/fault.ts'
import type { Address } from '#domain/ids.ts'
import { DELEGATES_PER_ACCOUNT_MAX } from '#domain/limits.ts'
import { type Rejection, reject } from '#domain/rejection.ts'

/** Maximum number of remembered accounts per chain, and of those with remembered delegations. */
const ACCOUNTS_MAX = 100_000
const READ_MAX = 5_000
/** Pause before the database is read again. */
const AGAIN_MS = 1_000

type DelegatesPorts = {
  readonly chainIds: Iterable<number>
  readonly delegators: (chainId: number, limit: number) => Promise<readonly Address[]>
  readonly delegationsOf: (asked: {
    readonly chainId: number
    readonly account: Address
    readonly nowSec: number
    readonly limit: number
  }) => Promise<readonly Delegation[]>
  readonly nowMs: () => number
  /** Schedules a call; a stopping front does not wait for it. */
  readonly after: (ms: number, then: () => void) => void
  readonly accountsMax?: number
}

export type Delegates = {
  /** Returns the delegations of an account; at once for an account without any, or if they are known. */
  of(
    chainId: number,
    account: Address,
  ): readonly Delegation[] | Promise<readonly Delegation[] | Rejection>
  /** Returns the chains on which a key may act for an account now: an account may have another owner on each chain. */
  actsOn(account: Address, delegate: Address): Promise<readonly number[] | Rejection>
  /** Applies the delegations that the indexer has written for a chain. */
  followed(chainId: number, events: readonly ChainEvent[]): void
  /** Drops the delegations of one chain or all, and loads them again after a lost message or a reorg. */
  reload(chainId?: number): void
}

type Chain = {
  /** Accounts that may have delegates. */
  readonly accounts: Set<Address>
  /** True if no other account has any. */
  isWhole: boolean
  /** Known delegations by account, the latest read last. */
  readonly read: Map<Address, readonly Delegation[]>
  /** Counts changes that make a read in progress too old to be remembered. */
  changes: number
  /** … and a load. */
  loads: number
}

const NONE: readonly Delegation[] = []

export function makeDelegates(ports: DelegatesPorts): Delegates {
  const { accountsMax = ACCOUNTS_MAX } = ports
  const chains = new Map<number, Chain>()
  for (const chainId of ports.chainIds) {
    chains.set(chainId, {
      accounts: new Set(),
      isWhole: false,
      read: new Map(),
      changes: 0,
      loads: 0,
    })
    void load(chainId)
  }

  async function load(chainId: number): Promise<void> {
    const chain = chains.get(chainId)
    if (chain === undefined) return
    const { loads } = chain
    try {
      const found = await ports.delegators(chainId, accountsMax + 1)
      if (loads !== chain.loads) return
      for (const account of found) {
        if (chain.accounts.size < accountsMax) chain.accounts.add(account)
      }
      chain.isWhole = found.every((account) => chain.accounts.has(account))
    } catch (error) {
      if (!(error instanceof Fault)) throw error
      ports.after(AGAIN_MS, () => {
        if (loads === chain.loads) void load(chainId)
      })
    }
  }

  async function read(
    chain: Chain,
    chainId: number,
    account: Address,
  ): Promise<readonly Delegation[] | Rejection> {
    const { changes } = chain
    const nowSec = Math.floor(ports.nowMs() / 1_000)
    try {
      const asked = { chainId, account, nowSec, limit: DELEGATES_PER_ACCOUNT_MAX }
      const found = await ports.delegationsOf(asked)
      if (changes === chain.changes) remember(chain, account, found)
      return found
    } catch (error) {
      if (!(error instanceof Fault)) throw error
      const detail = 'delegations cannot be read now: retry with the same order'
      return reject('OVERLOADED', undefined, detail)
    }
  }

  const delegates: Delegates = {
    of(chainId, account) {
      const chain = chains.get(chainId)
      if (chain === undefined) return NONE
      if (chain.isWhole && !chain.accounts.has(account)) return NONE
      return chain.read.get(account) ?? read(chain, chainId, account)
    },
    async actsOn(account, delegate) {
      const nowSec = ports.nowMs() / 1_000
      const actsOn: number[] = []
      for (const chainId of chains.keys()) {
        const found = await delegates.of(chainId, account)
        if ('rejected' in found) return found
        const isOne = found.some((one) => one.delegate === delegate && one.untilSec > nowSec)
        if (isOne) actsOn.push(chainId)
      }
      return actsOn
    },
    followed(chainId, events) {
      const chain = chains.get(chainId)
      if (chain === undefined) return
      for (const event of events) {
        if (event.type !== 'DelegateSet') continue
        chain.changes++
        chain.read.delete(event.account)
        if (chain.accounts.size < accountsMax) chain.accounts.add(event.account)
        else if (!chain.accounts.has(event.account)) chain.isWhole = false
      }
    },
    reload(chainId) {
      for (const [id, chain] of chains) {
        if (chainId !== undefined && id !== chainId) continue
        chain.changes++
        chain.loads++
        chain.isWhole = false
        chain.accounts.clear()
        chain.read.clear()
        void load(id)
      }
    },
  }
  return delegates
}

function remember(chain: Chain, account: Address, found: readonly Delegation[]): void {
  chain.read.delete(account)
  chain.read.set(account, found)
  if (chain.read.size <= READ_MAX) return
  for (const oldest of chain.read.keys()) {
    chain.read.delete(oldest)
    break
  }
}
