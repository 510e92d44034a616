/**
 * Cache of pages of the market list. All cached pages are made from the same version of the chain's index and for the
 * same second. So cached pages never contradict each other: a market on one page is on every other page to which it
 * belongs.
 *
 * A page is cached only if the version was the same before and after its rows were read. Once a newer version is seen,
 * no older page is used.
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
   * Milliseconds for which a version counts as current after it was read. With 0, only simultaneous requests share a
   * page.
   */
  readonly keepMs: number
  readonly pagesMax: number
  /**
   * Returns the version of the chain's index. If undefined, there is no chain, and pages are cached for the
   * rest of the second.
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
  /** Version checks run one after the other, so that the last check returns the newest version. */
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
