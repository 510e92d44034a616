/**
 * Delegations in the memory of a front. An account's delegations are read with its first order and again after each
 * change. Most accounts have no delegations, and need no read (`chain-accounts.ts`).
 */

import type { ChainEvent } from '#domain/chain-event.ts'
import type { Delegation } from '#domain/delegate.ts'
import { Fault } from '#domain/fault.ts'
import type { Address } from '#domain/ids.ts'
import { DELEGATES_PER_ACCOUNT_MAX } from '#domain/limits.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import { type ChainAccountsPorts, makeChainAccounts } from './chain-accounts.ts'

type DelegatesPorts = ChainAccountsPorts & {
  readonly delegators: (chainId: number, limit: number) => Promise<readonly Address[]>
  readonly delegationsOf: (asked: {
    readonly chainId: number
    readonly account: Address
    readonly nowSec: number
    readonly limit: number
  }) => Promise<readonly Delegation[]>
  readonly nowMs: () => number
}

export type Delegates = {
  /**
   * Returns the delegations of an account. Returns a promise only if the delegations must be read from the database.
   */
  of(
    chainId: number,
    account: Address,
  ): readonly Delegation[] | Promise<readonly Delegation[] | Rejection>
  /**
   * Returns the chains on which a key may act for an account now. An account may have a different owner on each chain.
   */
  actsOn(account: Address, delegate: Address): Promise<readonly number[] | Rejection>
  /** Drops the known delegations of the accounts that these events of the indexer change. */
  followed(chainId: number, events: readonly ChainEvent[]): void
  /**
   * Drops the delegations of one chain, or of every chain, and loads them again. Call this after a lost message or a
   * reorg.
   */
  reload(chainId?: number): void
}

const NONE: readonly Delegation[] = []

export function makeDelegates(ports: DelegatesPorts): Delegates {
  const accounts = makeChainAccounts<readonly Delegation[]>(ports, ports.delegators)

  async function read(
    chainId: number,
    account: Address,
  ): Promise<readonly Delegation[] | Rejection> {
    const remember = accounts.reading(chainId, account)
    const nowSec = Math.floor(ports.nowMs() / 1_000)
    try {
      const asked = { chainId, account, nowSec, limit: DELEGATES_PER_ACCOUNT_MAX }
      const found = await ports.delegationsOf(asked)
      remember(found)
      return found
    } catch (error) {
      if (!(error instanceof Fault)) throw error
      const detail =
        'the exchange cannot read the delegates of the trader now: retry with the same order'
      return reject('OVERLOADED', undefined, detail)
    }
  }

  const delegates: Delegates = {
    of(chainId, account) {
      if (!accounts.mayHave(chainId, account)) return NONE
      return accounts.known(chainId, account) ?? read(chainId, account)
    },
    async actsOn(account, delegate) {
      const nowSec = ports.nowMs() / 1_000
      const actsOn: number[] = []
      for (const chainId of accounts.chainIds()) {
        const found = await delegates.of(chainId, account)
        if ('rejected' in found) return found
        const isOne = found.some((one) => one.delegate === delegate && one.untilSec > nowSec)
        if (isOne) actsOn.push(chainId)
      }
      return actsOn
    },
    followed(chainId, events) {
      for (const event of events) {
        if (event.type === 'DelegateSet') accounts.changed(chainId, event.account)
      }
    },
    reload: accounts.reload,
  }
  return delegates
}
