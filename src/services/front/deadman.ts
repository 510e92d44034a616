/**
 * Dead-man switches at a front: if a client does not renew its switch before the switch is due, the orders of
 * its account are cancelled. The front writes switches through the store thread, and fires the switches that
 * are due.
 */

import type { DeadmanStore } from '#api/orders/own-orders.ts'
import { isRejection, reject } from '#domain/rejection.ts'
import { makeDeadmanWatch } from '#live/deadman-watch.ts'
import type { Delegates } from '#live/delegates.ts'
import type { MarketGateway } from '#live/market-gateway.ts'
import type { Clock } from '#runtime/clock.ts'
import type { ThreadContext } from '#services/kit/kit.ts'
import { askWrite, type WriteQueueRef } from '#store/writes/ask-write.ts'
import type { FrontPools } from './pools.ts'

const TURN_MS = 1_000
/** Maximum time for the cancels of one account. Orders that remain are cancelled at the next check of due switches. */
const CANCEL_MS_MAX = 10_000

type DeadmanPorts = Pick<FrontPools, 'query'> &
  Pick<ThreadContext, 'log' | 'every'> & {
    readonly store: WriteQueueRef
    readonly gateway: Pick<MarketGateway, 'cancelAll'>
    readonly actsOn: Delegates['actsOn']
    readonly clock: Clock
  }

export function openDeadman(ports: DeadmanPorts): DeadmanStore {
  const { store, gateway, clock, log } = ports
  const watch = makeDeadmanWatch({
    read: (asked) => ports.query('deadmanDue', asked),
    async cancelAll({ address, delegate }) {
      const chainIds = delegate === undefined ? undefined : await ports.actsOn(address, delegate)
      if (chainIds !== undefined && isRejection(chainIds)) return false
      // The delegate who set this switch was revoked, so the switch cancels nothing. The revocation has already
      // cancelled the orders that the delegate signed. The account's other orders stay open.
      if (chainIds?.length === 0) return true
      const context = { deadlineAtMs: clock.nowMs() + CANCEL_MS_MAX }
      const cancelled = await gateway.cancelAll(address, { cause: 'deadman', chainIds }, context)
      return !isRejection(cancelled)
    },
    clear: (fired) =>
      askWrite(store, 'clearFiredDeadman', {
        fired: fired.map(({ keyId, dueAtMs }) => ({ keyId, dueAtMs })),
      }),
    nowMs: clock.nowMs,
    fired: ({ keyId, address }) => log.info({ keyId, address }, 'a dead-man switch has fired'),
    failed: (error) => log.warn({ err: error }, 'dead-man switches could not be read or cleared'),
  })
  ports.every(TURN_MS, () => void watch.turn())

  const leftMs = (deadlineAtMs: number) => Math.max(1, deadlineAtMs - clock.nowMs())
  const unknown = (error: unknown) => {
    log.warn({ err: error }, 'a dead-man switch could not be written')
    return reject('OUTCOME_UNKNOWN')
  }
  const inactive = () => reject('UNAUTHORIZED_KEY_INACTIVE')
  return {
    set: (one, deadlineAtMs) =>
      askWrite(store, 'setDeadman', one, leftMs(deadlineAtMs)).then(
        (isSet) => (isSet ? undefined : inactive()),
        unknown,
      ),
    clear: (keyId, deadlineAtMs) =>
      askWrite(store, 'clearDeadman', { keyId }, leftMs(deadlineAtMs)).then(
        () => undefined,
        unknown,
      ),
  }
}
