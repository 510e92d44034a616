/**
 * Tracks which accounts of each chain have details. Details are delegations (`delegates.ts`) or withdrawn orders
 * (`withdrawn-orders.ts`). At its start, a front reads from the database which accounts have details. Later it learns
 * this from messages of the indexer. Few accounts have details, and the front reads nothing for the others. It reads
 * the details of an account when they are needed, and again after each change.
 *
 * Any account can get details for the price of gas, so memory is bounded. If more than `ACCOUNTS_MAX` accounts of a
 * chain have details, the front cannot know all of these accounts. It then reads the details of every account that it
 * needs. It keeps the details of the last `DETAILS_MAX` accounts that it read.
 */

import { Fault } from '#domain/fault.ts'
import type { Address } from '#domain/ids.ts'
import { remember } from '#domain/remember.ts'

/**
 * Maximums per chain: `ACCOUNTS_MAX` accounts that are known to have details, and `DETAILS_MAX` accounts whose details
 * are in memory.
 */
const ACCOUNTS_MAX = 100_000
const DETAILS_MAX = 5_000
/** Pause in milliseconds before a failed read of the database is repeated. */
const AGAIN_MS = 1_000

type Chain<Details> = {
  /** Accounts that may have details. */
  readonly accounts: Set<Address>
  /** True if every account with details is in `accounts`. */
  isWhole: boolean
  /** Known details by account, in the order in which they were read. */
  readonly details: Map<Address, Details>
  /** Number of changes of details so far. The result of a read is not cached if a change happened meanwhile. */
  changes: number
  /** Counts the loads of `accounts`; only the result of the newest load is used. */
  loads: number
}

export type ChainAccountsPorts = {
  readonly chainIds: Iterable<number>
  /** Schedules a call; a stopping front does not wait for it. */
  readonly after: (ms: number, then: () => void) => void
  readonly accountsMax?: number
}

export function makeChainAccounts<Details>(
  { chainIds, after, accountsMax = ACCOUNTS_MAX }: ChainAccountsPorts,
  /** Returns accounts with details, at most `limit`. */
  list: (chainId: number, limit: number) => Promise<readonly Address[]>,
) {
  const chains = new Map<number, Chain<Details>>()
  for (const chainId of chainIds) {
    const chain = { isWhole: false, changes: 0, loads: 0 }
    chains.set(chainId, { ...chain, accounts: new Set(), details: new Map() })
    void load(chainId)
  }

  async function load(chainId: number): Promise<void> {
    const chain = chains.get(chainId)
    if (chain === undefined) return
    const { loads } = chain
    try {
      const found = await list(chainId, accountsMax + 1)
      if (loads !== chain.loads) return
      for (const account of found) {
        if (chain.accounts.size < accountsMax) chain.accounts.add(account)
      }
      chain.isWhole = found.every((account) => chain.accounts.has(account))
    } catch (error) {
      if (!(error instanceof Fault)) throw error
      after(AGAIN_MS, () => {
        if (loads === chain.loads) void load(chainId)
      })
    }
  }

  return {
    chainIds: () => chains.keys(),
    /** Returns true if an account may have details, false if it certainly has none. */
    mayHave(chainId: number, account: Address): boolean {
      const chain = chains.get(chainId)
      return chain !== undefined && (!chain.isWhole || chain.accounts.has(account))
    },
    /** Returns the details of an account; undefined if they are not known. */
    known: (chainId: number, account: Address) => chains.get(chainId)?.details.get(account),
    /**
     * Call this before details are read. The returned function remembers the details, unless they changed during the
     * read.
     */
    reading(chainId: number, account: Address): (details: Details) => void {
      const chain = chains.get(chainId)
      const changes = chain?.changes
      return (details) => {
        if (chain === undefined || chain.changes !== changes) return
        remember(chain.details, account, details, DETAILS_MAX)
      }
    },
    /** Forgets the details of an account after they have changed. */
    changed(chainId: number, account: Address): void {
      const chain = chains.get(chainId)
      if (chain === undefined) return
      chain.changes++
      chain.details.delete(account)
      if (chain.accounts.size < accountsMax) chain.accounts.add(account)
      else if (!chain.accounts.has(account)) chain.isWhole = false
    },
    /**
     * Forgets all accounts of one chain, or of every chain, and loads them again. Call this after a lost message or a
     * reorg.
     */
    reload(chainId?: number): void {
      for (const [id, chain] of chains) {
        if (chainId !== undefined && id !== chainId) continue
        chain.changes++
        chain.loads++
        chain.isWhole = false
        chain.accounts.clear()
        chain.details.clear()
        void load(id)
      }
    },
  }
}
