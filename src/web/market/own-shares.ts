/**
 * The account's shares in a market. After a transaction, the shares are read several times until they change, because
 * the indexer processes the transaction a little later.
 */

import { effect, signal, untracked } from '@preact/signals'
import type { UserPosition } from '#protocol/shapes/users.ts'
import { account } from '../state/account.ts'
import { chain, reader } from '../state/exchange.ts'

/** Shares and their cost, in millionths of a share and of a dollar. */
export type OwnPosition = Pick<UserPosition, 'yesShares' | 'noShares' | 'yesCost' | 'noCost'>

const NO_POSITION: OwnPosition = { yesShares: 0, noShares: 0, yesCost: 0, noCost: 0 }

const POSITION_MS = 15_000
/** Pauses between repeated reads of the position, while the indexer processes a transaction. */
const INDEXED_MS = [300, 700, 1_500]

export function makeOwnShares(marketId: string) {
  const position = signal<OwnPosition | undefined>(undefined)
  let soon: ReturnType<typeof setTimeout> | undefined
  let isOver = false

  async function read(): Promise<void> {
    const address = account.value?.address
    const chainId = chain.value?.chainId
    if (address === undefined || chainId === undefined) return
    try {
      const all = await reader.positions({ address, chainId })
      if (account.value?.address !== address) return
      const found = all.find((one) => one.marketId === marketId) ?? NO_POSITION
      if (!isSame(position.value, found)) position.value = found
    } catch {
      // A failed read is ignored, because the position is read again after `POSITION_MS`.
    }
  }

  return {
    position,
    /** Reads the position now, and again after each pause of `INDEXED_MS` until it has changed. */
    readSoon(): void {
      const before = position.peek()
      const again = async (pauses: readonly number[]): Promise<void> => {
        clearTimeout(soon)
        await read()
        const [pauseMs, ...rest] = pauses
        if (isOver || pauseMs === undefined || position.peek() !== before) return
        clearTimeout(soon)
        soon = setTimeout(() => void again(rest), pauseMs)
      }
      void again(INDEXED_MS)
    },
    /** Reads the position every `POSITION_MS` while the page is visible, and immediately when the account changes. */
    follow(): () => void {
      isOver = false
      const stop = effect(() => {
        const address = account.value?.address
        position.value = undefined
        if (address !== undefined) untracked(() => void read())
      })
      const timer = setInterval(() => {
        if (!document.hidden) void read()
      }, POSITION_MS)
      return () => {
        isOver = true
        stop()
        clearInterval(timer)
        clearTimeout(soon)
      }
    },
  }
}

function isSame(one: OwnPosition | undefined, other: OwnPosition): boolean {
  const names = ['yesShares', 'noShares', 'yesCost', 'noCost'] as const
  return one !== undefined && names.every((name) => one[name] === other[name])
}
