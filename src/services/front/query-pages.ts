/** Reads answers from the database and writes them as JSON, on a thread of the query pool. */

import { type EarlierTradesPage, tradesPageJson } from '#api/markets/trade-pages.ts'
import {
  type PositionRequest,
  positionBody,
  type UserActivityPage,
  type UserPositionsPage,
  userActivityJson,
  userPositionsJson,
} from '#api/positions/user-pages.ts'
import { settlementJson } from '#api/settlements/settlement-page.ts'
import { writeJson } from '#http/json.ts'
import type { StoreReply } from '#store/engine/reply.ts'
import { faultReply } from '#store/reads/answer-query.ts'
import type { Query } from '#store/reads/queries.ts'

type Pages = {
  userActivity: UserActivityPage
  userPositions: UserPositionsPage
  earlierTrades: EarlierTradesPage
  position: PositionRequest
  settlement: { readonly txHash: string }
}

/** Pages that scan history. */
export const LONG_PAGES: ReadonlySet<keyof Pages> = new Set(['userActivity', 'earlierTrades'])

/** Requests one page. */
export type AskPage = <Name extends keyof Pages>(name: Name, page: Pages[Name]) => Promise<string>

export type PageTask<Name extends keyof Pages = keyof Pages> = {
  readonly page: Name
  readonly args: Pages[Name]
}

/**
 * Time limit for the pages of one message, so that other reads on the thread can run. Pages that are not written within
 * this time are requested again.
 */
const TOGETHER_MS = 5

/**
 * Returns a function that writes requested pages on a pool thread. It always writes the first page, and
 * further pages until `TOGETHER_MS` has passed. If a page fails, its reply contains the fault.
 */
export function makePageWriter(
  query: Query,
  together: <T>(work: () => Promise<T>) => Promise<T>,
): (tasks: readonly PageTask[]) => Promise<StoreReply[]> {
  const writers: { readonly [Name in keyof Pages]: (page: Pages[Name]) => Promise<string> } = {
    async userActivity(page) {
      const { user, chainId, limit, before } = page
      const [found, payouts] = await Promise.all([
        query('tradesOfUser', page),
        before === undefined ? query('payoutsOfUser', { user, chainId, limit }) : [],
      ])
      return userActivityJson({ ...found, payouts })
    },
    async userPositions(page) {
      const { user, chainId, limit } = page
      const [positions, profit] = await Promise.all([
        query('positionsOfUser', page),
        query('realisedProfitOf', { user, chainId }),
      ])
      return userPositionsJson(positions, profit, limit)
    },
    async earlierTrades(page) {
      const { list, marketId, limit } = page
      return tradesPageJson(list, marketId, await query('earlierTrades', page), limit)
    },
    position: async (asked) => writeJson(positionBody(await query('positionOf', asked))),
    async settlement({ txHash }) {
      const row = await query('transactionByHash', { txHash })
      return settlementJson(txHash, row, (chainId) => query('indexedBlock', { chainId }))
    },
  }
  const write = async ({ page, args }: PageTask): Promise<StoreReply> => {
    try {
      return { ok: true, answer: await writers[page](args as never) }
    } catch (error) {
      return faultReply(error)
    }
  }
  const writeInTime = async (tasks: readonly PageTask[]): Promise<StoreReply[]> => {
    const replies: StoreReply[] = []
    const untilMs = performance.now() + TOGETHER_MS
    for (const task of tasks) {
      replies.push(await write(task))
      if (performance.now() >= untilMs) break
    }
    return replies
  }
  return async (tasks) => {
    try {
      return await together(() => writeInTime(tasks))
    } catch (error) {
      return tasks.map(() => faultReply(error))
    }
  }
}
