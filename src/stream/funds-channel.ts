/**
 * The channel of a trader's funds on a chain. Each message contains all funds of the trader on that chain. The accounts
 * thread reports only that the funds of a trader have changed. If the trader's channel has subscribers, the front then
 * requests the new funds from the accounts thread.
 */

import { checksumAddress } from '#domain/checksum-address.ts'
import type { Address } from '#domain/ids.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import { fundsBody } from '#live/funds-body.ts'
import type { FundsGateway } from '#live/funds-gateway.ts'
import type { Clock } from '#runtime/clock.ts'
import type { Feed, FundsFeed } from './feeds.ts'
import type { TopicRegistry } from './topic-registry.ts'

const ASK_MS = 2_000
const ASK_AGAIN_MS = 500

type FundsChannel<M> = {
  feedOf(trader: Address, chainId: number): FundsFeed<M> | Rejection
  changed(trader: Address, chainId: number): void
  /** Returns the snapshot; undefined until the accounts thread has answered. */
  snapshot(feed: FundsFeed<M>, reset: boolean): string | undefined
  forget(feed: FundsFeed<M>): void
}

type Followed<M> = {
  readonly feed: FundsFeed<M>
  last: ReturnType<typeof fundsBody> | undefined
  asking: boolean
  /**
   * True if the funds changed after the current request was sent. When its answer arrives, the funds are requested once
   * more.
   */
  again: boolean
}

export function makeFundsChannel<M>(
  registry: TopicRegistry<M>,
  clock: Clock,
  ports: {
    /** Source of funds; undefined if the exchange reserves no funds. */
    readonly gateway: Pick<FundsGateway, 'funds'> | undefined
    readonly chainIds: ReadonlySet<number>
    /** Called when the snapshot of a feed has become available, to send it to waiting subscribers. */
    readonly flushed: (feed: Feed<M>) => void
  },
): FundsChannel<M> {
  const followed = new Map<string, Followed<M>>()
  const keyOf = (trader: Address, chainId: number): string => `${chainId}:${trader}`

  async function ask(one: Followed<M>): Promise<void> {
    if (one.asking) {
      one.again = true
      return
    }
    one.asking = true
    one.again = false
    const { feed } = one
    const deadlineAtMs = clock.nowMs() + ASK_MS
    const view = await ports.gateway?.funds(feed.chainId, feed.trader, { deadlineAtMs })
    one.asking = false
    if (followed.get(keyOf(feed.trader, feed.chainId)) !== one || view === undefined) return
    if (isRejection(view)) {
      clock.after(ASK_AGAIN_MS, () => void ask(one))
      return
    }
    tell(one, fundsBody(view))
    if (one.again) void ask(one)
  }

  function tell(one: Followed<M>, body: ReturnType<typeof fundsBody>): void {
    const { feed } = one
    const isFirst = one.last === undefined
    one.last = body
    if (isFirst) {
      ports.flushed(feed)
      return
    }
    registry.sayNext(feed, (step) =>
      JSON.stringify({ type: 'funds', sub: feed.topic.name, ...body, ...step, ts: clock.nowMs() }),
    )
  }

  return {
    feedOf(trader, chainId) {
      if (ports.gateway === undefined) {
        return reject(
          'NOT_FOUND',
          'channel',
          'this exchange does not reserve funds (risk.funds of GET /api/v1/config is off)',
        )
      }
      if (!ports.chainIds.has(chainId)) {
        return reject('NOT_FOUND', 'chainId', `chain ${chainId} is not a chain of this exchange`)
      }
      const known = followed.get(keyOf(trader, chainId))
      if (known !== undefined) return known.feed
      const topic = registry.counted(`funds:${chainId}:${checksumAddress(trader)}`)
      const feed: FundsFeed<M> = { kind: 'funds', topic, trader, chainId }
      const one: Followed<M> = { feed, last: undefined, asking: false, again: false }
      followed.set(keyOf(trader, chainId), one)
      registry.put(feed)
      void ask(one)
      return feed
    },
    changed(trader, chainId) {
      const one = followed.get(keyOf(trader, chainId))
      if (one !== undefined) void ask(one)
    },
    snapshot({ trader, chainId, topic }, reset) {
      const last = followed.get(keyOf(trader, chainId))?.last
      if (last === undefined) return undefined
      const end = { cursor: topic.cursor(topic.last), ts: clock.nowMs() }
      return JSON.stringify({
        ...{ type: 'funds.snapshot', sub: topic.name },
        ...last,
        ...end,
        ...(reset ? { reset } : {}),
      })
    },
    forget: ({ trader, chainId }) => void followed.delete(keyOf(trader, chainId)),
  }
}
