/**
 * Shares rate limits among fronts on several machines. A few times a second, each node sends the amounts drawn from its
 * buckets to the other nodes, and applies the amounts that it receives. So a rate applies to all nodes together. But
 * before a node receives the amounts of other nodes, each front may allow one burst.
 */

import type { MessagePort } from 'node:worker_threads'
import { channelOptions, isNode, type ThreadData } from '#config/thread-data.ts'
import { type Draw, makeDraws } from '#http/draws.ts'
import { type Limiter, makeLimiter, steadyMs } from '#http/limits.ts'
import { Channel } from '#runtime/channel.ts'
import { makeRef } from '#runtime/ref.ts'
import type { ThreadContext } from './kit.ts'

/**
 * Drawn amounts. A front sends its amounts to its node’s bridge (the thread that exchanges messages with other nodes).
 * The bridge sends amounts of other nodes to a front.
 */
export type DrawsProtocol = {
  Drawn: { takes: { draws: readonly Draw[] }; answers: undefined }
}

const TELL_EVERY_MS = 250
const BUCKETS_MAX = 4_000
/** Approximate size in bytes of one draw, to keep a NATS message below its maximum of one megabyte. */
const DRAW_BYTES = 128

export function openLimiter(
  { settings, buckets }: ThreadData,
  { every }: Pick<ThreadContext, 'every'>,
): { limiter: Limiter | undefined; connect(port: MessagePort): void; close(): void } {
  const bridge = makeRef<DrawsProtocol>()
  const { limits } = settings
  if (!limits.enabled || !isNode(settings)) {
    const limiter = limits.enabled ? makeLimiter(limits, buckets) : undefined
    return { limiter, connect: (port) => port.close(), close() {} }
  }
  const draws = makeDraws(BUCKETS_MAX)
  const limiter = makeLimiter(limits, buckets, steadyMs, draws.note)
  every(TELL_EVERY_MS, () => {
    const taken = draws.take()
    if (taken.length > 0) bridge.tell('Drawn', { draws: taken }, DRAW_BYTES * taken.length)
  })
  return {
    limiter,
    connect(port) {
      bridge.replace(
        new Channel<DrawsProtocol>(port, channelOptions(settings), {
          received: (_type, message) =>
            limiter.drawnElsewhere((message as DrawsProtocol['Drawn']['takes']).draws),
        }),
      )
    },
    close: bridge.close,
  }
}
