/**
 * Shares rate limits among fronts on several machines. Every `TELL_EVERY_MS`, each front sends the other machines the
 * amounts that its requests took from the rate-limit buckets of its machine. Amounts that arrive from other machines
 * are also taken from these buckets. So a rate applies to all machines together. But until the amounts arrive, each
 * machine may allow one burst of its own.
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
