/**
 * Rate limits over the fronts of several machines. Draws from local buckets are sent to the other nodes a few times a
 * second, and their draws are applied here. A rate holds over all nodes; but each front may allow one burst before the
 * others are notified.
 */

import type { MessagePort } from 'node:worker_threads'
import { channelOptions, isNode, type ThreadData } from '#config/thread-data.ts'
import { type Draw, makeDraws } from '#http/draws.ts'
import { type Limiter, makeLimiter, steadyMs } from '#http/limits.ts'
import { Channel } from '#runtime/channel.ts'
import { makeRef } from '#runtime/ref.ts'
import type { ThreadContext } from './kit.ts'

/** Messages of fronts to their node's bridge, and of the bridge to a front about draws elsewhere. */
export type DrawsProtocol = {
  Drawn: { takes: { draws: readonly Draw[] }; answers: undefined }
}

const TELL_EVERY_MS = 250
const BUCKETS_MAX = 4_000
/** Approximate size of one draw; a NATS message may have a megabyte. */
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
          heard: (_type, message) =>
            limiter.drawnElsewhere((message as DrawsProtocol['Drawn']['takes']).draws),
        }),
      )
    },
    close: bridge.close,
  }
}
