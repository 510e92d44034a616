/**
 * Cache of pages of the market list. A cached page is used only if three things are the same as when it was read: the
 * current second, the version of the chain's index, and the version of the list on the board (this front's copy of the
 * markets). So all cached pages show the same state: no market is missing from a page to which it belongs.
 *
 * A page is cached only if the index had the same version before and after the rows of the page were read.
 */

import { remember } from '#domain/remember.ts'
import type { MarketBoard } from '#live/market-board.ts'
import type { ListedMarket } from './market-pages.ts'

/** A page, and the last answer made from it. */
export type MarketPage<Answer> = {
  readonly markets: readonly ListedMarket[]
  answer: Answer | undefined
}

export type KeptPages<Answer> = {
  /** Returns the page of this name: from the cache, otherwise by calling `read` with the current second. */
  page(
    name: string,
    read: (nowSec: number) => Promise<readonly ListedMarket[]>,
  ): MarketPage<Answer> | Promise<MarketPage<Answer>>
}

type Kept<Answer> = {
  readonly page: MarketPage<Answer>
  readonly version: string
  readonly nowSec: number
  readonly listVersion: number
}

/**
 * Maximum number of attempts to read a page. If the version changes during every attempt, the last result is returned
 * but not cached.
 */
const ATTEMPTS_MAX = 3

export function keepPages<Answer>(ports: {
  readonly board: Pick<MarketBoard, 'listVersion'>
  readonly nowMs: () => number
  /**
   * Milliseconds after which the version of the chain's index is read again. If 0, a page is not reused after its
   * request has ended: only simultaneous requests share a page.
   */
  readonly keepMs: number
  readonly pagesMax: number
  /**
   * Returns the version of the chain's index; undefined without a chain. Without a chain, a page is used until the
   * second ends or the board's list changes.
   */
  readonly version?: (() => Promise<string>) | undefined
}): KeptPages<Answer> {
  const { board, nowMs, keepMs, pagesMax } = ports
  const readVersion = ports.version ?? (async () => '')
  /** Oldest page first. */
  const kept = new Map<string, Kept<Answer>>()
  const underWay = new Map<string, Promise<MarketPage<Answer>>>()
  let version = ''
  let checkedAtMs = Number.NEGATIVE_INFINITY
  /** Version checks run one after the other, so that a slow check never replaces a newer version by an older one. */
  let checks: Promise<unknown> = Promise.resolve()

  const second = () => Math.floor(nowMs() / 1_000)

  function check(): Promise<string> {
    const run = async () => {
      const atMs = nowMs()
      version = await readVersion()
      checkedAtMs = atMs
      return version
    }
    const checked = checks.then(run, run)
    checks = checked.catch(() => undefined)
    return checked
  }

  const isChecked = () => nowMs() - checkedAtMs < keepMs

  function find(name: string): MarketPage<Answer> | undefined {
    const known = kept.get(name)
    const isSame =
      known?.version === version &&
      known.nowSec === second() &&
      known.listVersion === board.listVersion
    return isSame ? known.page : undefined
  }

  async function make(
    name: string,
    read: (nowSec: number) => Promise<readonly ListedMarket[]>,
  ): Promise<MarketPage<Answer>> {
    if (!isChecked()) await check()
    for (let attempt = 1; ; attempt++) {
      const known = keepMs === 0 ? undefined : find(name)
      if (known !== undefined) return known
      const before = { version, nowSec: second(), listVersion: board.listVersion }
      const page = { markets: await read(before.nowSec), answer: undefined }
      if ((await check()) === before.version) {
        remember(kept, name, { ...before, page }, pagesMax)
        return page
      }
      if (attempt === ATTEMPTS_MAX) return page
    }
  }

  return {
    page(name, read) {
      const known = isChecked() ? find(name) : undefined
      if (known !== undefined) return known
      const waiting = underWay.get(name)
      if (waiting !== undefined) return waiting
      const making = make(name, read).finally(() => underWay.delete(name))
      underWay.set(name, making)
      return making
    },
  }
}
